# The life of the package in a clean Debian root: runs there as root, ends at the first thing that is not as it should be.
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive

say() { echo "trial: $*"; }
fail() { echo "trial: $*" >&2; exit 1; }
# Everything that a package may leave or change, but dpkg's own books and what other tools keep as a copy.
files() {
    find / -xdev \( -path /proc -o -path /tmp -o -path /run -o -path /var/lib/dpkg -o -path /var/log -o -path /var/cache \) -prune \
        -o \( -name 'group-' -o -name 'gshadow-' \) -o -print | sort
}
is_enabled() { [ -e "/etc/systemd/system/multi-user.target.wants/$1" ]; }

files > /tmp/before
cp /etc/group /tmp/group

say "install"
dpkg -i /tmp/older.deb > /tmp/log 2>&1 || { cat /tmp/log; fail "not installed"; }
getent group windhover > /dev/null || fail "no group"
[ "$(stat -c '%a %G' /etc/windhover)" = "750 windhover" ] || fail "/etc/windhover: $(stat -c '%a %G' /etc/windhover)"
is_enabled windhover-undo.service || fail "windhover-undo is off"
is_enabled windhover-tune.service || fail "windhover-tune is off"
if is_enabled windhover-serve.service; then fail "windhover-serve is on by itself"; fi
for file in /usr/share/man/man1/windhover.1.gz /usr/share/bash-completion/completions/windhover \
    /usr/share/zsh/vendor-completions/_windhover /usr/share/fish/vendor_completions.d/windhover.fish \
    /usr/share/doc/windhover/measuring.md /usr/share/doc/windhover/glossary.md /usr/share/doc/windhover/shielding.md \
    /usr/share/doc/windhover/comparing.md /usr/share/doc/windhover/bypass.md /usr/share/doc/windhover/kernels.md \
    /usr/share/doc/windhover/generated/plan.md /usr/share/doc/windhover/copyright /usr/share/doc/windhover/changelog.gz; do
    # A minimal system may be told to leave documents out; here it is not.
    [ -s "$file" ] || fail "$file is missing"
done
# What a guide links to is there, or is of the source tree.
for link in $(cd /usr/share/doc/windhover && grep -ohE '\]\([a-z-]+(/[a-z-]+)*\.md' ./*.md | tr -d '](' | sort -u); do
    [ -s "/usr/share/doc/windhover/$link" ] || fail "a guide links to $link, which is missing"
done
bash -n /usr/share/bash-completion/completions/windhover

say "use"
windhover --version
for plan in /usr/share/doc/windhover/examples/campaigns/*.toml; do
    windhover campaign plan "$plan" > /tmp/log 2>&1 || { cat /tmp/log; fail "$plan"; }
done
(umask 027; windhover key > /etc/windhover/key)
chgrp windhover /etc/windhover/key
[ "$(stat -c '%a %G' /etc/windhover/key)" = "640 windhover" ] || fail "the key: $(stat -c '%a %G' /etc/windhover/key)"
# As the unit runs it: a user of nothing, in the group.
setpriv --reuid 65534 --regid windhover --clear-groups --no-new-privs \
    windhover serve --bind 127.0.0.1:7413 --key-file /etc/windhover/key 2> /tmp/serve &
server=$!
n=0
until grep -q 'serving on' /tmp/serve; do
    n=$((n + 1))
    [ $n -lt 100 ] || { cat /tmp/serve; fail "serve does not listen"; }
    sleep 0.1
done
# 4: measured, and this machine is too busy for the figure to be trusted, which is not what is tried here.
code=0
windhover pingpong udp 127.0.0.1:7413 --key-file /etc/windhover/key --seconds 0.3 --format json > /tmp/result 2> /tmp/log || code=$?
[ $code = 0 ] || [ $code = 4 ] || { cat /tmp/log; fail "pingpong ended with $code"; }
grep -q '"received":[1-9]' /tmp/result || { cat /tmp/result; fail "pingpong measured nothing"; }
# Without the key nobody is served.
code=0
windhover pingpong udp 127.0.0.1:7413 --seconds 0.3 > /tmp/log 2>&1 || code=$?
[ $code != 0 ] && [ $code != 4 ] || { cat /tmp/log; fail "served without a key: $code"; }
kill "$server"
wait "$server" || fail "serve ended with $? after SIGTERM"

say "upgrade"
echo '# changed by the owner' >> /etc/default/windhover-serve
cp /etc/windhover/key /tmp/key
dpkg -i /tmp/newer.deb > /tmp/log 2>&1 || { cat /tmp/log; fail "not upgraded"; }
[ "$(dpkg-query -W -f '${Version}' windhover)" = "$(dpkg-deb -f /tmp/newer.deb Version)" ] || fail "the old version is still there"
grep -q 'changed by the owner' /etc/default/windhover-serve || fail "the owner's settings are gone"
cmp -s /etc/windhover/key /tmp/key || fail "the key changed"
is_enabled windhover-undo.service || fail "windhover-undo is off after the upgrade"
is_enabled windhover-tune.service || fail "windhover-tune is off after the upgrade"
if is_enabled windhover-serve.service; then fail "windhover-serve is on after the upgrade"; fi
dpkg --verify windhover | grep -v /etc/default/windhover-serve && fail "files are not as packaged"

say "remove"
# A setting that is in force goes back with the program: afterwards nobody could.
changed=no
if windhover tune apply --help > /dev/null 2>&1 && [ -w /proc/sys/net/ipv4/tcp_slow_start_after_idle ]; then
    before=$(cat /proc/sys/net/ipv4/tcp_slow_start_after_idle)
    windhover tune apply --yes --set net.ipv4.tcp_slow_start_after_idle=$((1 - before)) > /tmp/log 2>&1 && changed=yes || { cat /tmp/log; fail "tune apply"; }
    [ "$(cat /proc/sys/net/ipv4/tcp_slow_start_after_idle)" != "$before" ] || fail "tune apply changed nothing"
fi
windhover lab up left > /tmp/log 2>&1 || { cat /tmp/log; fail "no lab"; }
ip netns list | grep -q '^wh-left-a' || fail "the lab has no namespace"
dpkg -r windhover > /tmp/log 2>&1 || { cat /tmp/log; fail "not removed"; }
if ip netns list | grep '^wh-'; then fail "a lab is left without the program that could remove it"; fi
[ ! -e /usr/bin/windhover ] || fail "the program is still there"
[ -e /etc/windhover/key ] || fail "the key went before the purge"
[ $changed = no ] || [ "$(cat /proc/sys/net/ipv4/tcp_slow_start_after_idle)" = "$before" ] || fail "a setting stayed"
say "a setting was put back: $changed"

say "purge"
dpkg -P windhover > /tmp/log 2>&1 || { cat /tmp/log; fail "not purged"; }
files > /tmp/after
cmp -s /tmp/before /tmp/after || { diff /tmp/before /tmp/after; fail "not all is as before"; }
cmp -s /etc/group /tmp/group || { diff /tmp/group /etc/group; fail "the group is left"; }
[ ! -e /run/windhover ] || fail "/run/windhover is left"
say "nothing is left"
