#!/bin/sh
# Once in a campaign: kills it while it measures a cell. Its unit has to go on with it.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
journal=$(ls -d /runs/*)/journal.jsonl
until [ -e /killed ]; do
    if tail -n 1 "$journal" | grep -q '"step":"start"'; then
        touch /killed
        sync
        kill -9 "$(systemctl show --property MainPID --value windhover-resume)"
    fi
    sleep 0.1
done
