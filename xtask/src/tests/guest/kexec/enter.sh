#!/bin/sh
# The machine under test, from the root of its disk: begins the campaign, or goes on with it after each boot and each kill, as
# windhover-resume.service does where systemd runs. The second serial port leads to the test.
if [ $$ = 1 ] && [ -x /usr/lib/systemd/systemd ]; then
    SYSTEMD_COLORS=0 SYSTEMD_LOG_COLOR=0 exec /usr/lib/systemd/systemd
fi
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root COLUMNS=300
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs -o mode=755 run /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
hostname guest
ip link set lo up
mkfifo /run/told
exec 3<>/dev/ttyS1
stty raw -echo <&3
# What a boot cut off may have no end.
say() { printf '\n%s\n' "$*" >&3; }
say "up $(uname -r) $(cat /proc/cmdline)"

while read -r order <&3; do
    case $order in
    kill) if kill -9 "$(cat /run/campaign)" 2>/dev/null; then say killed; fi ;;
    reset) echo b >/proc/sysrq-trigger ;;
    esac
done &

while true; do
    run=$(ls -d /runs/* 2>/dev/null | head -n 1)
    say snapshot
    (cd "$run/cells" 2>/dev/null && md5sum ./*.json 2>/dev/null) | sed 's/^/cell /' >&3
    # What was not written to its end has no brace.
    sed -n 's/.*"step":"done","index":\([0-9]*\),.*}$/done \1/p' "$run/journal.jsonl" 2>/dev/null >&3
    if [ -L /var/lib/windhover/resume ]; then
        set -- resume /var/lib/windhover/resume
    elif [ ! -e "$run/run.json" ]; then
        # Killed before it had begun.
        rm -rf /runs/*
        set -- run /plan.toml --output /runs
    elif ! grep -q '"outcome": "done"' "$run/run.json"; then
        set -- resume "$run"
    elif grep -q windhover.kexec /proc/cmdline; then
        # Killed on its way home, once it had ended: a person would reboot.
        say "away from home"
        sync
        reboot -f
    else
        say home
        sync
        mount -o remount,ro /dev/vda /
        exit 0
    fi
    say "start $*"
    # Not a terminal, which would have a bar.
    cat /run/told >&3 &
    windhover campaign "$@" >/run/told 2>&1 3>&- &
    echo $! >/run/campaign
    wait $!
    say "ended with $?"
    rm -f /run/campaign
    # Where it boots the machine, that comes before the next round.
    sleep 5
done
