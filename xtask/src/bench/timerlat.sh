# The kernel's timerlat and `windhover wake --explain` in turn, alone and beside disturbances: ROUNDS CPU PRIORITY.
# Prints '@@ LOAD TOOL' before each trace or explanation. What is set in tracefs is restored at the end, also after a failure.
set -eu
rounds=$1 cpu=$2 priority=$3 tracing=/sys/kernel/tracing load= work=
instance=$tracing/instances/windhover
cpus=$(cat $tracing/osnoise/cpus) period=$(cat $tracing/osnoise/timerlat_period_us)
if grep -qs -e timerlat -e osnoise $tracing/current_tracer $tracing/instances/*/current_tracer; then
    echo 'another program uses timerlat or osnoise' >&2
    exit 1
fi
restore() {
    set +e
    kill $load 2>/dev/null
    echo nop >$instance/current_tracer
    rmdir $instance
    echo $cpus >$tracing/osnoise/cpus
    echo $period >$tracing/osnoise/timerlat_period_us
    rm -rf "$work"
}
mkdir $instance
trap restore EXIT
trap 'exit 1' INT TERM HUP
work=$(mktemp -d)
echo $cpu >$tracing/osnoise/cpus
echo 1000 >$tracing/osnoise/timerlat_period_us
echo 1 >$instance/events/osnoise/enable
printf '%s\n' 'name = "wake"' 'repetitions = 1' 'lab.kind = "loopback"' 'roles.initiator = "a"' '[[grid]]' '[measure]' \
    'probe = "wake"' 'seconds = 0.44' 'warmup_ms = 50' 'interval_us = 1000' "cpu = \"$cpu\"" "policy = \"fifo:$priority\"" \
    'explain = true' 'explain_over = "1ns"' >$work/plan.toml
timerlat() {
    echo timerlat >$instance/current_tracer
    # The thread sets its own priority when it first runs.
    sleep 0.05
    chrt -f -p $priority "$(grep -lsx timerlat/$cpu /proc/[0-9]*/comm | tr -dc 0-9)"
    echo >$instance/trace
    sleep 0.44
    echo 0 >$instance/tracing_on
    echo "@@ $1 timerlat"
    cat $instance/trace
    echo nop >$instance/current_tracer
    echo 1 >$instance/tracing_on
}
wake() {
    windhover --quiet campaign run $work/plan.toml --output $work/runs >/dev/null || [ $? = 4 ]
    echo "@@ $1 windhover"
    windhover explain $work/runs/*/ --json
    rm -r $work/runs
}
for round in $(seq $rounds); do
    for name in none hog packets; do
        [ $name = none ] || { disturb $name $cpu & load=$!; sleep 0.5; }
        if [ $((round % 2)) = 1 ]; then timerlat $name; wake $name; else wake $name; timerlat $name; fi
        [ $name = none ] || { kill $load; wait $load || load=; }
    done
    echo "round $round of $rounds" >&2
done
