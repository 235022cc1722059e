# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_windhover_global_optspecs
    string join \n color= quiet check-usage h/help V/version
end

function __fish_windhover_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_windhover_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_windhover_using_subcommand
    set -l cmd (__fish_windhover_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c windhover -n "__fish_windhover_needs_command" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_needs_command" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_needs_command" -l check-usage -d 'Only check the command line: run nothing and read no file'
complete -c windhover -n "__fish_windhover_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_needs_command" -s V -l version -d 'Print version'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "key" -d 'Make a shared key for `serve` and its clients'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "serve" -d 'Run an endpoint that sends messages back'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "pingpong" -d 'Time messages there and back, one at a time'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "rr" -d 'Count request/response transactions and the CPU they cost'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "ping" -d 'Time ICMP echoes'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "pace" -d 'Send messages at a fixed rate and time their answers, whether or not they keep up'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "stream" -d 'Send bulk data one way or both and count what arrives; shows what the load does to latency'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "wake" -d 'Time how late sleeping threads wake up, as cyclictest does'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "cycle" -d 'Publish data each cycle, have them echoed, and count missed deadlines'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "pgm" -d 'Send, receive and time messages over PGM, the reliable multicast protocol (RFC 3208)'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "exchange" -d 'Exchange process data between control PCs each cycle, and count what is late or lost'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "dump" -d 'Decode captured packets: Windhover\'s messages and the time between them'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "load" -d 'Run a background load and report how even it was'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "run" -d 'Start a program with policy, priority and CPUs, or change running tasks'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "bypass" -d 'Run unmodified programs on a faster network stack'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "shield" -d 'Keep other processes and interrupts off chosen CPUs, as RedHawk\'s shield(1) does'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "tune" -d 'Set many settings by a profile, and put them back'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "doctor" -d 'Check this machine for latency problems and suggest fixes'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "irq" -d 'Show how often interrupts and softirqs come to each CPU, live'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "lab" -d 'Make, list, use and remove labs of hosts'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "campaign" -d 'Run a plan: all combinations of its factors, interleaved and repeated'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "report" -d 'Report runs as a table, Markdown, CSV, JSON or one HTML file'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "compare" -d 'Compare runs, or cells of one run, with intervals and tests; gates for CI'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "plot" -d 'Write figures of runs as PNG, SVG, PDF or CSV: heat maps, differences of cells, charts'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "import" -d 'Turn results of other tools into a run for report, compare and plot'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "explain" -d 'Say why messages of a run were late: which causes, at which end, and what the tail would be without each'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "show" -d 'Show a run in the terminal'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "agent" -d 'Supervise one host for a campaign: requests on stdin, replies on stdout'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "undo" -d 'Put changed settings back as they were'
complete -c windhover -n "__fish_windhover_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c windhover -n "__fish_windhover_using_subcommand key" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand key" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand key" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand serve" -l bind -d 'Address to listen on; anything but loopback or a lab address needs a key' -r
complete -c windhover -n "__fish_windhover_using_subcommand serve" -l key-file -d 'File with the shared key (see `windhover key`)' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand serve" -l as -d 'Answer the stock clients of another tool instead, over UDP and TCP on its port: sockperf' -r
complete -c windhover -n "__fish_windhover_using_subcommand serve" -l pid-file -d 'Write the process id to this file once it listens; it is removed at the end. The file of a server that runs is refused' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand serve" -l log -d 'Append the messages of --daemon to this file [default: they are discarded]' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand serve" -l max-size -d 'Largest message in bytes' -r
complete -c windhover -n "__fish_windhover_using_subcommand serve" -l max-session -d 'Longest session in seconds' -r
complete -c windhover -n "__fish_windhover_using_subcommand serve" -l max-sessions -d 'Sessions at once' -r
complete -c windhover -n "__fish_windhover_using_subcommand serve" -l max-rate -d 'Messages a second answered in one session' -r
complete -c windhover -n "__fish_windhover_using_subcommand serve" -l max-bandwidth -d 'Payload bits a second that a session\'s stream may carry in each direction, such as 100M; 0: no streams [default: 1G of udp to the client, which nothing else holds back, and no limit otherwise]' -r
complete -c windhover -n "__fish_windhover_using_subcommand serve" -l max-priority -d 'Highest real-time priority; the kernel\'s threaded interrupts have 50' -r
complete -c windhover -n "__fish_windhover_using_subcommand serve" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand serve" -l open -d 'With --as: listen also where others can reach it. Clients of other tools prove no key'
complete -c windhover -n "__fish_windhover_using_subcommand serve" -l once -d 'End after the first client, when no session of it has run for a second, as iperf3 -1 does'
complete -c windhover -n "__fish_windhover_using_subcommand serve" -l daemon -d 'Go on in the background once it listens: 0 says that it does. What goes wrong until then is printed here'
complete -c windhover -n "__fish_windhover_using_subcommand serve" -l detached -d 'The process that --daemon leaves behind'
complete -c windhover -n "__fish_windhover_using_subcommand serve" -l no-real-time -d 'Refuse real-time policies'
complete -c windhover -n "__fish_windhover_using_subcommand serve" -l no-spin -d 'Refuse spinning'
complete -c windhover -n "__fish_windhover_using_subcommand serve" -l no-cpu -d 'Refuse to be pinned to a CPU'
complete -c windhover -n "__fish_windhover_using_subcommand serve" -l allow-other-addresses -d 'Let clients with the key use another address for data than for the control connection'
complete -c windhover -n "__fish_windhover_using_subcommand serve" -l explain -d 'Explain why messages were late here, for clients that ask: kernel events need CAP_BPF and CAP_PERFMON'
complete -c windhover -n "__fish_windhover_using_subcommand serve" -l explain-names -d 'Tell those clients the names of programs of others'
complete -c windhover -n "__fish_windhover_using_subcommand serve" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l address -d 'The endpoint too, in the place of ADDR: for --against \'--address ADDR\'' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l key-file -d 'File with the endpoint\'s key (see `windhover key`)' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l stack -d 'Run this end, with --fork-both also the far end, behind a network stack of `windhover bypass run`; without --fork-both start the far end by `windhover bypass run --stack STACK -- windhover serve`' -r -f -a "kernel\t''
spin\t''
xdp\t''"
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l peer -d 'The program that answers: windhover, or sockperf, a stock `sockperf server`' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l foreign -d 'Measure with this program, a foreign worker: its words split at blanks' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l size -d 'Message sizes in bytes: 32 or 1-8,64-1024+64,1-65536x2; `default` for the protocol\'s own list [default: 32, over pgm 64]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l min-size -d 'Leave out sizes below this' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l max-size -d 'Leave out sizes above this' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l pings -d 'Messages sent before waiting for an answer' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l pongs -d 'Messages that the far end answers with' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l sleep-gap -d 'Sleep between rounds in µs' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l spin-gap -d 'Spin between rounds in µs' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l count -d 'Measure so many rounds at most' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -s t -l seconds -d 'Measure so long [default: 1 to 5, until p99.9 is known, or until --count]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l maxms -d 'As --seconds, in the unit of sfnt-pingpong and sfnt-stream' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l min-seconds -d 'Measure at least so long' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l minms -d 'As --min-seconds, in the unit of sfnt-pingpong' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l min-count -d 'Measure at least so many rounds' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l interval -d 'Stop once the 95 % interval is this many percent wide or less: of the median (pingpong), or of the rate over up to 30 passes that share the time and count (rr; ±1 % is 2 % wide). Without these two limits 60 s at most' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l warmup -d 'Untimed rounds before each size for so many ms' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l warmup-count -d 'And at least so many untimed rounds' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l timeout -d 'A datagram is lost, a stream broken, after so many ms' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l receive -d 'How this end waits for a message: block, spin, poll, select, epoll, epoll-mod, epoll-adddel' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l remote-receive -d 'How the far end waits [default: as this end]; iocp where it is winpoint on Windows' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l policy -d 'Scheduling policy of this end: other, batch, idle, fifo:N, rr:N' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l remote-policy -d 'Scheduling policy of the far end [default: other]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l cpu -d 'CPU of this end' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l remote-cpu -d 'CPU of the far end' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l affinity -d 'CPU of each end as in sfnt-pingpong: THIS;FAR, or one number for both' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l busy-poll -d 'SO_BUSY_POLL of this end in µs' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l remote-busy-poll -d 'SO_BUSY_POLL of the far end in µs' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l send-buffer -d 'SO_SNDBUF of both ends in bytes' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l receive-buffer -d 'SO_RCVBUF of both ends in bytes' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l bind -d 'Local address of the data socket' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l remote-bind -d 'Local address of the far end\'s data socket [default: the one that it serves at]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l device -d 'Network device that the data socket is bound to' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l remote-device -d 'Network device that the far end\'s data socket is bound to' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l ttl -d 'Time to live, or hop limit, of data' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l frame-backend -d 'How frames get past the kernel at both ends: zero-copy, native, generic (AF_XDP), packet (AF_PACKET) [default: the first that opens]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l mcast -d 'Multicast group that carries UDP messages both ways [sfnt-pingpong\'s are 224.1.2.48 and ff05::142]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l mcast-interface -d 'Interface of the group by name or address' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l idle-pipes -d 'Idle pipes of this end' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l remote-idle-pipes -d 'Idle pipes of the far end [default: as this end]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l idle-unix-dgram -d 'Idle UNIX datagram sockets of this end' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l remote-idle-unix-dgram -d 'Idle UNIX datagram sockets of the far end [default: as this end]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l idle-unix-stream -d 'Idle UNIX stream sockets of this end' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l remote-idle-unix-stream -d 'Idle UNIX stream sockets of the far end [default: as this end]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l idle-udp -d 'Idle UDP sockets of this end' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l remote-idle-udp -d 'Idle UDP sockets of the far end [default: as this end]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l idle-tcp -d 'Idle connected TCP sockets of this end' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l remote-idle-tcp -d 'Idle connected TCP sockets of the far end [default: as this end]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l idle-tcp-listen -d 'Idle listening TCP sockets of this end' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l remote-idle-tcp-listen -d 'Idle listening TCP sockets of the far end [default: as this end]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l explain-over -d 'Explain what is over this time (100us), over p99.9, or auto: over the p99' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l worst -d 'Keep this many outliers, the slowest messages, one by one' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l over -d 'Keep messages over this RTT in µs one by one' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l pcap -d 'Write this measurement\'s packets to FILE as pcapng; needs CAP_NET_RAW' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l pcap-snap -d 'Payload kept of each packet behind its headers' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l against -d 'Measure a second setting in turn with this one and say what differs: the same command with FLAGS, which replace those typed before, as in --against \'--policy fifo:1\'' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l at-most -d 'With --against: end after this time, as 90s, 10m or 2h; earlier once the answer is known' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l format -d 'Form of the result on standard output' -r -f -a "table\t'Aligned text'
json\t'One result document a line'
csv\t'One row a size'
markdown\t'A Markdown table'
sfnt\t'The columns of sfnt-pingpong, or of pace those of sfnt-stream, in ns'"
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l raw -d 'Write raw samples to PREFIX-SIZE.dat: one line a message, send time and RTT in ns (pace: PREFIX-SIZE-RATE.dat, with the intended send time before them; wake: PREFIX-wake.dat, deadline and latency)' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l percentile -d 'The percentile of the %ile column of --format sfnt [default: 99]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l fork-both -d 'Run the far end here too: an endpoint on ADDR [default: 127.0.0.1, with -6 ::1] as a child, ended with the measurement. Both ends are then on one host. unix-stream, unix-dgram and pipe need no such flag'
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -s 4 -l ipv4 -d 'Use IPv4 when a name has both'
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -s 6 -l ipv6 -d 'Use IPv6 when a name has both'
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l rtt -d 'Report RTT instead of RTT/2'
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l no-nodelay -d 'Leave Nagle\'s algorithm on (no TCP_NODELAY)'
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l unconnected -d 'Do not connect UDP sockets: sendto and recvfrom'
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l more -d 'MSG_MORE on all but the last message of a round'
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l mcast-loop -d 'Loop sent multicast messages back to this host'
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l explain -d 'Explain what is late in a second pass: by kernel events, or without CAP_BPF by the CPU times of threads'
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l ladder -d 'Give the percentiles from p25 to p99.999, too: a table of them, in CSV columns, in JSON `ladder`'
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand pingpong" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l address -d 'The endpoint too, in the place of ADDR: for --against \'--address ADDR\'' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l key-file -d 'File with the endpoint\'s key (see `windhover key`)' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l stack -d 'Run this end, with --fork-both also the far end, behind a network stack of `windhover bypass run`; without --fork-both start the far end by `windhover bypass run --stack STACK -- windhover serve`' -r -f -a "kernel\t''
spin\t''
xdp\t''"
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l response -d 'Response size in bytes [default: as the request]' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l size -d 'Message sizes in bytes: 32 or 1-8,64-1024+64,1-65536x2; `default` for the protocol\'s own list [default: 32, over pgm 64]' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l min-size -d 'Leave out sizes below this' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l max-size -d 'Leave out sizes above this' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l count -d 'Measure so many rounds at most' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -s t -l seconds -d 'Measure so long [default: 1 to 5, until p99.9 is known, or until --count]' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l maxms -d 'As --seconds, in the unit of sfnt-pingpong and sfnt-stream' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l min-seconds -d 'Measure at least so long' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l minms -d 'As --min-seconds, in the unit of sfnt-pingpong' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l min-count -d 'Measure at least so many rounds' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l interval -d 'Stop once the 95 % interval is this many percent wide or less: of the median (pingpong), or of the rate over up to 30 passes that share the time and count (rr; ±1 % is 2 % wide). Without these two limits 60 s at most' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l warmup -d 'Untimed rounds before each size for so many ms' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l warmup-count -d 'And at least so many untimed rounds' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l timeout -d 'A datagram is lost, a stream broken, after so many ms' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l receive -d 'How this end waits for a message: block, spin, poll, select, epoll, epoll-mod, epoll-adddel' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l remote-receive -d 'How the far end waits [default: as this end]; iocp where it is winpoint on Windows' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l policy -d 'Scheduling policy of this end: other, batch, idle, fifo:N, rr:N' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l remote-policy -d 'Scheduling policy of the far end [default: other]' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l cpu -d 'CPU of this end' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l remote-cpu -d 'CPU of the far end' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l affinity -d 'CPU of each end as in sfnt-pingpong: THIS;FAR, or one number for both' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l busy-poll -d 'SO_BUSY_POLL of this end in µs' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l remote-busy-poll -d 'SO_BUSY_POLL of the far end in µs' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l send-buffer -d 'SO_SNDBUF of both ends in bytes' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l receive-buffer -d 'SO_RCVBUF of both ends in bytes' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l bind -d 'Local address of the data socket' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l remote-bind -d 'Local address of the far end\'s data socket [default: the one that it serves at]' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l device -d 'Network device that the data socket is bound to' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l remote-device -d 'Network device that the far end\'s data socket is bound to' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l ttl -d 'Time to live, or hop limit, of data' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l frame-backend -d 'How frames get past the kernel at both ends: zero-copy, native, generic (AF_XDP), packet (AF_PACKET) [default: the first that opens]' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l mcast -d 'Multicast group that carries UDP messages both ways [sfnt-pingpong\'s are 224.1.2.48 and ff05::142]' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l mcast-interface -d 'Interface of the group by name or address' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l explain-over -d 'Explain what is over this time (100us), over p99.9, or auto: over the p99' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l worst -d 'Keep this many outliers, the slowest messages, one by one' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l over -d 'Keep messages over this RTT in µs one by one' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l pcap -d 'Write this measurement\'s packets to FILE as pcapng; needs CAP_NET_RAW' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l pcap-snap -d 'Payload kept of each packet behind its headers' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l against -d 'Measure a second setting in turn with this one and say what differs: the same command with FLAGS, which replace those typed before, as in --against \'--policy fifo:1\'' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l at-most -d 'With --against: end after this time, as 90s, 10m or 2h; earlier once the answer is known' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l format -d 'Form of the result on standard output' -r -f -a "table\t'Aligned text'
json\t'One result document a line'
csv\t'One row a size'
markdown\t'A Markdown table'
sfnt\t'The columns of sfnt-pingpong, or of pace those of sfnt-stream, in ns'"
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l raw -d 'Write raw samples to PREFIX-SIZE.dat: one line a message, send time and RTT in ns (pace: PREFIX-SIZE-RATE.dat, with the intended send time before them; wake: PREFIX-wake.dat, deadline and latency)' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l percentile -d 'The percentile of the %ile column of --format sfnt [default: 99]' -r
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l fork-both -d 'Run the far end here too: an endpoint on ADDR [default: 127.0.0.1, with -6 ::1] as a child, ended with the measurement. Both ends are then on one host. unix-stream, unix-dgram and pipe need no such flag'
complete -c windhover -n "__fish_windhover_using_subcommand rr" -s 4 -l ipv4 -d 'Use IPv4 when a name has both'
complete -c windhover -n "__fish_windhover_using_subcommand rr" -s 6 -l ipv6 -d 'Use IPv6 when a name has both'
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l half -d 'Report RTT/2 instead of RTT'
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l connect-each -d 'A new connection for each transaction (with tcp: netperf\'s TCP_CRR)'
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l no-nodelay -d 'Leave Nagle\'s algorithm on (no TCP_NODELAY)'
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l unconnected -d 'Do not connect UDP sockets: sendto and recvfrom'
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l more -d 'MSG_MORE on all but the last message of a round'
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l mcast-loop -d 'Loop sent multicast messages back to this host'
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l explain -d 'Explain what is late in a second pass: by kernel events, or without CAP_BPF by the CPU times of threads'
complete -c windhover -n "__fish_windhover_using_subcommand rr" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l ladder -d 'Give the percentiles from p25 to p99.999, too: a table of them, in CSV columns, in JSON `ladder`'
complete -c windhover -n "__fish_windhover_using_subcommand rr" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand rr" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand ping" -s s -l size -d 'Data bytes after the ICMP header' -r
complete -c windhover -n "__fish_windhover_using_subcommand ping" -l policy -d 'Scheduling policy: other, batch, idle, fifo:N, rr:N' -r
complete -c windhover -n "__fish_windhover_using_subcommand ping" -l cpu -d 'CPU to run on' -r
complete -c windhover -n "__fish_windhover_using_subcommand ping" -l bind -d 'Local address' -r
complete -c windhover -n "__fish_windhover_using_subcommand ping" -l device -d 'Network device that the socket is bound to' -r
complete -c windhover -n "__fish_windhover_using_subcommand ping" -l ttl -d 'Time to live, or hop limit' -r
complete -c windhover -n "__fish_windhover_using_subcommand ping" -s i -l interval -d 'Time between two echoes in seconds, whatever their answers take; 0: each as soon as the one before is over' -r
complete -c windhover -n "__fish_windhover_using_subcommand ping" -s c -l count -d 'Send so many echoes; the median needs 20, p99 1000' -r
complete -c windhover -n "__fish_windhover_using_subcommand ping" -l timeout -d 'An echo is lost after so many ms' -r
complete -c windhover -n "__fish_windhover_using_subcommand ping" -l worst -d 'Keep this many outliers, the slowest messages, one by one' -r
complete -c windhover -n "__fish_windhover_using_subcommand ping" -l over -d 'Keep messages over this RTT in µs one by one' -r
complete -c windhover -n "__fish_windhover_using_subcommand ping" -l against -d 'Measure a second setting in turn with this one and say what differs: the same command with FLAGS, which replace those typed before, as in --against \'--policy fifo:1\'' -r
complete -c windhover -n "__fish_windhover_using_subcommand ping" -l at-most -d 'With --against: end after this time, as 90s, 10m or 2h; earlier once the answer is known' -r
complete -c windhover -n "__fish_windhover_using_subcommand ping" -l format -d 'Form of the result on standard output' -r -f -a "table\t'Aligned text'
json\t'One result document a line'
csv\t'One row a size'
markdown\t'A Markdown table'
sfnt\t'The columns of sfnt-pingpong, or of pace those of sfnt-stream, in ns'"
complete -c windhover -n "__fish_windhover_using_subcommand ping" -l raw -d 'Write raw samples to PREFIX-SIZE.dat: one line a message, send time and RTT in ns (pace: PREFIX-SIZE-RATE.dat, with the intended send time before them; wake: PREFIX-wake.dat, deadline and latency)' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand ping" -l percentile -d 'The percentile of the %ile column of --format sfnt [default: 99]' -r
complete -c windhover -n "__fish_windhover_using_subcommand ping" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand ping" -s 4 -l ipv4 -d 'Use IPv4 when a name has both'
complete -c windhover -n "__fish_windhover_using_subcommand ping" -s 6 -l ipv6 -d 'Use IPv6 when a name has both'
complete -c windhover -n "__fish_windhover_using_subcommand ping" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand ping" -l ladder -d 'Give the percentiles from p25 to p99.999, too: a table of them, in CSV columns, in JSON `ladder`'
complete -c windhover -n "__fish_windhover_using_subcommand ping" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand ping" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l address -d 'The endpoint too, in the place of ADDR: for --against \'--address ADDR\'' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l key-file -d 'File with the endpoint\'s key (see `windhover key`)' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l stack -d 'Run this end, with --fork-both also the far end, behind a network stack of `windhover bypass run`; without --fork-both start the far end by `windhover bypass run --stack STACK -- windhover serve`' -r -f -a "kernel\t''
spin\t''
xdp\t''"
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l to -d 'A further endpoint that gets every message too; may be repeated. Its key is that of --key-file' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l size -d 'Message sizes in bytes: 32 or 1-8,64-1024+64,1-65536x2; `default` for the protocol\'s own list [default: 32, over pgm 64]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l min-size -d 'Leave out sizes below this' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l max-size -d 'Leave out sizes above this' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l rate -d 'Messages a second: 10000, 10k,20k, 10k-50k+10k or 1k-64kx2, measured one after the other' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l shape -d 'Shape of the schedule at that rate: even, poisson, burst:N (N at once, then a pause)' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l pacer -d 'What the sender does until a message is due: sleep, hybrid (sleep until shortly before, then spin), spin' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l every -d 'The far end answers message 0 and every Nth after it; the others are one-way traffic' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l stamps -d 'Time stamps beside the application\'s: none, kernel (driver and stack), hardware (NIC), hardware-sent (NIC sends, stack receives), auto (the best each end has)' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l seed -d 'Seed of --shape poisson and of --random-delay' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l random-delay -d 'Delay each message by a random time: 0 to PERCENT % of the distance to the next message (for bursts: each burst), so that an even schedule does not keep step with timers and cycles of the same period' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l count -d 'Measure so many rounds at most' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -s t -l seconds -d 'Measure so long [default: 1 to 5, until p99.9 is known, or until --count]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l maxms -d 'As --seconds, in the unit of sfnt-pingpong and sfnt-stream' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l warmup -d 'Untimed rounds before each size for so many ms' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l timeout -d 'A datagram is lost, a stream broken, after so many ms' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l receive -d 'How this end waits for a message: block, spin, poll, select, epoll, epoll-mod, epoll-adddel' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l remote-receive -d 'How the far end waits [default: as this end]; iocp where it is winpoint on Windows' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l policy -d 'Scheduling policy of this end: other, batch, idle, fifo:N, rr:N' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l remote-policy -d 'Scheduling policy of the far end [default: other]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l cpu -d 'CPU of this end' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l remote-cpu -d 'CPU of the far end' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l affinity -d 'CPU of each end as in sfnt-pingpong: THIS;FAR, or one number for both' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l busy-poll -d 'SO_BUSY_POLL of this end in µs' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l remote-busy-poll -d 'SO_BUSY_POLL of the far end in µs' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l send-buffer -d 'SO_SNDBUF of both ends in bytes' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l receive-buffer -d 'SO_RCVBUF of both ends in bytes' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l bind -d 'Local address of the data socket' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l remote-bind -d 'Local address of the far end\'s data socket [default: the one that it serves at]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l device -d 'Network device that the data socket is bound to' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l remote-device -d 'Network device that the far end\'s data socket is bound to' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l receive-cpu -d 'CPU of the receiving thread [default: that of --cpu]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l ttl -d 'Time to live, or hop limit, of data' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l mcast -d 'Multicast group that carries UDP messages both ways [sfnt-pingpong\'s are 224.1.2.48 and ff05::142]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l mcast-interface -d 'Interface of the group by name or address' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l explain-over -d 'Explain what is over this time (100us), over p99.9, or auto: over the p99' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l worst -d 'Keep this many outliers, the slowest messages, one by one' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l over -d 'Keep messages over this RTT in µs one by one' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l schedule -d 'Send at the times in a file instead: one a line since the start, in seconds or with ns, us, ms, never going back. It is repeated when it is shorter than the measurement' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l reply-group -d 'Group that answers are published on [default: the next address]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l group-interface -d 'Interface for the groups by name or address [default: that of the address to the first endpoint]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l carrier -d 'What packets travel in: udp, or raw (IP protocol 113; needs CAP_NET_RAW)' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l udp-port -d 'UDP port of the carrier; one source an address can have it, for NAKs come to it [default: 3056, with pgm --zeromq its --port]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l packet -d 'Longest packet in bytes, without headers of IP and UDP' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l window -d 'Packets that can be repaired, and that are kept behind a gap: a power of two' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l bandwidth -d 'Most bits a second of all packets of a source, such as 100M or 1G [default: 1G]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l ambient -d 'Time between two ambient SPMs, which announce the source and its transmit window' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l heartbeat -d 'First pause without data after which an SPM announces the last packet; it doubles up to --ambient' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l fec -d 'Parity (forward error correction) over groups of so many packets, a power of two from 2 to 128; all ends of pace use it, receivers of pgm with --use-fec' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l fec-proactive -d 'Send this many parity packets after each group unasked' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l fec-pause -d 'End a group that is not full after such a pause [default: never]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l back-off -d 'Longest random wait before the first NAK for a packet' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l repeat -d 'Time to wait for the confirmation (NCF) of a NAK before the next NAK' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l data -d 'Time to wait for a confirmed repair before the next NAK' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l retries -d 'NAKs without a confirmation, and confirmations without a repair, after which a packet is given up' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l nak-path -d 'Where NAKs go: data (to where the data come from), or spm (where the SPM says, for networks whose routers speak PGM; whoever can forge an SPM then decides)' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l pcap -d 'Write this measurement\'s packets to FILE as pcapng; needs CAP_NET_RAW' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l pcap-snap -d 'Payload kept of each packet behind its headers' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l against -d 'Measure a second setting in turn with this one and say what differs: the same command with FLAGS, which replace those typed before, as in --against \'--policy fifo:1\'' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l at-most -d 'With --against: end after this time, as 90s, 10m or 2h; earlier once the answer is known' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l format -d 'Form of the result on standard output' -r -f -a "table\t'Aligned text'
json\t'One result document a line'
csv\t'One row a size'
markdown\t'A Markdown table'
sfnt\t'The columns of sfnt-pingpong, or of pace those of sfnt-stream, in ns'"
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l raw -d 'Write raw samples to PREFIX-SIZE.dat: one line a message, send time and RTT in ns (pace: PREFIX-SIZE-RATE.dat, with the intended send time before them; wake: PREFIX-wake.dat, deadline and latency)' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l percentile -d 'The percentile of the %ile column of --format sfnt [default: 99]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l fork-both -d 'Run the far end here too: an endpoint on ADDR [default: 127.0.0.1, with -6 ::1] as a child, ended with the measurement. Both ends are then on one host. unix-stream, unix-dgram and pipe need no such flag'
complete -c windhover -n "__fish_windhover_using_subcommand pace" -s 4 -l ipv4 -d 'Use IPv4 when a name has both'
complete -c windhover -n "__fish_windhover_using_subcommand pace" -s 6 -l ipv6 -d 'Use IPv6 when a name has both'
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l sender-measured -d 'The sending application is what is measured: its lateness is part of the figures from the intended send, and does not invalidate them'
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l no-nodelay -d 'Leave Nagle\'s algorithm on (no TCP_NODELAY)'
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l unconnected -d 'Do not connect UDP sockets: sendto and recvfrom'
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l more -d 'MSG_MORE on all but the last message of a round'
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l mcast-loop -d 'Loop sent multicast messages back to this host'
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l explain -d 'Explain what is late in a second pass: by kernel events, or without CAP_BPF by the CPU times of threads'
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l beyond-saturation -d 'Continue with higher rates after one was not reached'
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l fec-unasked -d 'Send no parity on demand, only that of --fec-proactive; further losses are repaired by single packets'
complete -c windhover -n "__fish_windhover_using_subcommand pace" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l ladder -d 'Give the percentiles from p25 to p99.999, too: a table of them, in CSV columns, in JSON `ladder`'
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l jsonl -d 'Write each interval of 100 ms to standard output as a JSON line of type `interval` once it is complete; each result follows as one of type `result`'
complete -c windhover -n "__fish_windhover_using_subcommand pace" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand pace" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l address -d 'The endpoint too, in the place of ADDR: for --against \'--address ADDR\'' -r
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l key-file -d 'File with the endpoint\'s key (see `windhover key`)' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l stack -d 'Run this end, with --fork-both also the far end, behind a network stack of `windhover bypass run`; without --fork-both start the far end by `windhover bypass run --stack STACK -- windhover serve`' -r -f -a "kernel\t''
spin\t''
xdp\t''"
complete -c windhover -n "__fish_windhover_using_subcommand stream" -s t -l seconds -d 'Stream so long [default: 10]' -r
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l size -d 'Bytes of a datagram, or of a write: a number or a list, measured one after the other [default: udp what a frame of the route carries, at most 1472; tcp 131072]' -r
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l direction -d 'Direction: up (from here), down (from the far end), both' -r
complete -c windhover -n "__fish_windhover_using_subcommand stream" -s P -l flows -d 'Parallel flows in each direction' -r
complete -c windhover -n "__fish_windhover_using_subcommand stream" -s b -l bandwidth -d 'Payload bits a second in each direction, such as 500k, 100M, 2.5G [default: as fast as it goes]' -r
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l rate -d 'Datagrams a second in each direction instead, such as 50k; udp only' -r
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l batch -d 'Datagrams a system call at most (sendmmsg, recvmmsg); udp only [default: 1]' -r
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l receive -d 'How this end waits for a message: block, spin, poll, select, epoll, epoll-mod, epoll-adddel' -r
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l remote-receive -d 'How the far end waits [default: as this end]; iocp where it is winpoint on Windows' -r
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l policy -d 'Scheduling policy of this end: other, batch, idle, fifo:N, rr:N' -r
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l remote-policy -d 'Scheduling policy of the far end [default: other]' -r
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l cpu -d 'CPU of this end' -r
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l remote-cpu -d 'CPU of the far end' -r
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l affinity -d 'CPU of each end as in sfnt-pingpong: THIS;FAR, or one number for both' -r
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l busy-poll -d 'SO_BUSY_POLL of this end in µs' -r
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l remote-busy-poll -d 'SO_BUSY_POLL of the far end in µs' -r
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l send-buffer -d 'SO_SNDBUF of both ends in bytes' -r
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l receive-buffer -d 'SO_RCVBUF of both ends in bytes' -r
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l bind -d 'Local address of the data socket' -r
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l remote-bind -d 'Local address of the far end\'s data socket [default: the one that it serves at]' -r
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l device -d 'Network device that the data socket is bound to' -r
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l remote-device -d 'Network device that the far end\'s data socket is bound to' -r
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l ttl -d 'Time to live, or hop limit, of data' -r
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l pcap -d 'Write this measurement\'s packets to FILE as pcapng; needs CAP_NET_RAW' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l pcap-snap -d 'Payload kept of each packet behind its headers' -r
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l against -d 'Measure a second setting in turn with this one and say what differs: the same command with FLAGS, which replace those typed before, as in --against \'--policy fifo:1\'' -r
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l at-most -d 'With --against: end after this time, as 90s, 10m or 2h; earlier once the answer is known' -r
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l format -d 'Form of the result on standard output' -r -f -a "table\t'Aligned text'
json\t'One result document a line'
csv\t'One row a size'
markdown\t'A Markdown table'
sfnt\t'The columns of sfnt-pingpong, or of pace those of sfnt-stream, in ns'"
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l fork-both -d 'Run the far end here too: an endpoint on ADDR [default: 127.0.0.1, with -6 ::1] as a child, ended with the measurement. Both ends are then on one host. unix-stream, unix-dgram and pipe need no such flag'
complete -c windhover -n "__fish_windhover_using_subcommand stream" -s 4 -l ipv4 -d 'Use IPv4 when a name has both'
complete -c windhover -n "__fish_windhover_using_subcommand stream" -s 6 -l ipv6 -d 'Use IPv6 when a name has both'
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l working-latency -d 'A UDP ping-pong before and beside the stream shows what the load does to latency'
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l bidir -d 'Both directions at once: --direction both'
complete -c windhover -n "__fish_windhover_using_subcommand stream" -s R -l reverse -d 'From the far end: --direction down'
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l gso -d 'The kernel splits long sends into datagrams (UDP_SEGMENT); udp only'
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l gro -d 'The kernel joins datagrams for the receiver (UDP_GRO): jitter is then unknown; udp only'
complete -c windhover -n "__fish_windhover_using_subcommand stream" -s N -l nodelay -d 'Turn Nagle\'s algorithm off (TCP_NODELAY); iperf and netperf leave it on for bulk data too'
complete -c windhover -n "__fish_windhover_using_subcommand stream" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l jsonl -d 'Write each second to standard output as a JSON line of type `interval` once it is complete; the result follows as one of type `result`'
complete -c windhover -n "__fish_windhover_using_subcommand stream" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand stream" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand wake" -l policy -d 'Scheduling policy: other, batch, idle, fifo:N, rr:N' -r
complete -c windhover -n "__fish_windhover_using_subcommand wake" -s p -l priority -d 'SCHED_FIFO with this priority, 1 to 99: --policy fifo:N' -r
complete -c windhover -n "__fish_windhover_using_subcommand wake" -s i -l interval-us -d 'Time between two deadlines of a thread in µs' -r
complete -c windhover -n "__fish_windhover_using_subcommand wake" -s a -l cpu -d 'CPUs: one thread on each, as 1 or 1-3,5 [default: one thread, on any CPU]' -r
complete -c windhover -n "__fish_windhover_using_subcommand wake" -l timer-slack-ns -d 'How late the kernel may let the timers be in ns (PR_SET_TIMERSLACK) [default: the system\'s, 50000]; real-time policies have none' -r
complete -c windhover -n "__fish_windhover_using_subcommand wake" -s l -l count -d 'Measure so many deadlines of each thread; the median needs 20, p99 1000' -r
complete -c windhover -n "__fish_windhover_using_subcommand wake" -s D -l seconds -d 'Measure so long [default: 10, or until --count]' -r
complete -c windhover -n "__fish_windhover_using_subcommand wake" -l warmup -d 'Untimed wake-ups for so many ms' -r
complete -c windhover -n "__fish_windhover_using_subcommand wake" -l foreign -d 'Measure with this program, a foreign worker: its words split at blanks' -r
complete -c windhover -n "__fish_windhover_using_subcommand wake" -l explain-over -d 'Explain what is over this time (100us), over p99.9, or auto: over the p99' -r
complete -c windhover -n "__fish_windhover_using_subcommand wake" -l worst -d 'Keep this many outliers, the slowest messages, one by one' -r
complete -c windhover -n "__fish_windhover_using_subcommand wake" -l over -d 'Keep wake-ups later than so many µs one by one' -r
complete -c windhover -n "__fish_windhover_using_subcommand wake" -s h -l histogram -d 'Also print the histogram, as cyclictest does: one line for each µs below US. `-h` alone prints help' -r
complete -c windhover -n "__fish_windhover_using_subcommand wake" -l against -d 'Measure a second setting in turn with this one and say what differs: the same command with FLAGS, which replace those typed before, as in --against \'--policy fifo:1\'' -r
complete -c windhover -n "__fish_windhover_using_subcommand wake" -l at-most -d 'With --against: end after this time, as 90s, 10m or 2h; earlier once the answer is known' -r
complete -c windhover -n "__fish_windhover_using_subcommand wake" -l format -d 'Form of the result on standard output' -r -f -a "table\t'Aligned text'
json\t'One result document a line'
csv\t'One row a size'
markdown\t'A Markdown table'
sfnt\t'The columns of sfnt-pingpong, or of pace those of sfnt-stream, in ns'"
complete -c windhover -n "__fish_windhover_using_subcommand wake" -l raw -d 'Write raw samples to PREFIX-SIZE.dat: one line a message, send time and RTT in ns (pace: PREFIX-SIZE-RATE.dat, with the intended send time before them; wake: PREFIX-wake.dat, deadline and latency)' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand wake" -l percentile -d 'The percentile of the %ile column of --format sfnt [default: 99]' -r
complete -c windhover -n "__fish_windhover_using_subcommand wake" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand wake" -l explain -d 'Explain what is late in a second pass: by kernel events, or without CAP_BPF by the CPU times of threads'
complete -c windhover -n "__fish_windhover_using_subcommand wake" -s S -l smp -d 'One thread on each CPU that this process may run on'
complete -c windhover -n "__fish_windhover_using_subcommand wake" -l help -d 'Print help with all flags'
complete -c windhover -n "__fish_windhover_using_subcommand wake" -s q -d 'As --quiet, in the letter of cyclictest'
complete -c windhover -n "__fish_windhover_using_subcommand wake" -s m -l mlockall -d 'What cyclictest asks for and is always so here: locked memory, clock_nanosleep'
complete -c windhover -n "__fish_windhover_using_subcommand wake" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand wake" -l ladder -d 'Give the percentiles from p25 to p99.999, too: a table of them, in CSV columns, in JSON `ladder`'
complete -c windhover -n "__fish_windhover_using_subcommand wake" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l address -d 'The endpoint too, in the place of ADDR: for --against \'--address ADDR\'' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l key-file -d 'File with the endpoint\'s key (see `windhover key`)' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l stack -d 'Run this end, with --fork-both also the far end, behind a network stack of `windhover bypass run`; without --fork-both start the far end by `windhover bypass run --stack STACK -- windhover serve`' -r -f -a "kernel\t''
spin\t''
xdp\t''"
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l size -d 'Data bytes of a cycle, behind a header of 64 bytes: 1 to 1384' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l interval-us -d 'Time between two cycles in µs: 50 (20 kHz) to 10000 (100 Hz)' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l pacer -d 'What the sender does until a message is due: sleep, hybrid (sleep until shortly before, then spin), spin' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l deadline-us -d 'By when the echo must have arrived after its cycle was due, in µs [default: the interval]' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l count -d 'Measure so many rounds at most' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -s t -l seconds -d 'Measure so long [default: 1 to 5, until p99.9 is known, or until --count]' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l maxms -d 'As --seconds, in the unit of sfnt-pingpong and sfnt-stream' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l warmup -d 'Untimed rounds before each size for so many ms' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l timeout -d 'A datagram is lost, a stream broken, after so many ms' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l receive -d 'How this end waits for a message: block, spin, poll, select, epoll, epoll-mod, epoll-adddel' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l remote-receive -d 'How the far end waits [default: as this end]; iocp where it is winpoint on Windows' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l policy -d 'Scheduling policy of this end: other, batch, idle, fifo:N, rr:N' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l remote-policy -d 'Scheduling policy of the far end [default: other]' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l cpu -d 'CPU of this end' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l remote-cpu -d 'CPU of the far end' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l affinity -d 'CPU of each end as in sfnt-pingpong: THIS;FAR, or one number for both' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l busy-poll -d 'SO_BUSY_POLL of this end in µs' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l remote-busy-poll -d 'SO_BUSY_POLL of the far end in µs' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l send-buffer -d 'SO_SNDBUF of both ends in bytes' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l receive-buffer -d 'SO_RCVBUF of both ends in bytes' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l bind -d 'Local address of the data socket' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l remote-bind -d 'Local address of the far end\'s data socket [default: the one that it serves at]' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l receive-cpu -d 'CPU of the receiving thread [default: that of --cpu]' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l explain-over -d 'Explain what is over this time (100us), over p99.9, or auto: over the p99' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l worst -d 'Keep this many outliers, the slowest messages, one by one' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l over -d 'Keep messages over this RTT in µs one by one' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l pcap -d 'Write this measurement\'s packets to FILE as pcapng; needs CAP_NET_RAW' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l pcap-snap -d 'Payload kept of each packet behind its headers' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l against -d 'Measure a second setting in turn with this one and say what differs: the same command with FLAGS, which replace those typed before, as in --against \'--policy fifo:1\'' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l at-most -d 'With --against: end after this time, as 90s, 10m or 2h; earlier once the answer is known' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l format -d 'Form of the result on standard output' -r -f -a "table\t'Aligned text'
json\t'One result document a line'
csv\t'One row a size'
markdown\t'A Markdown table'
sfnt\t'The columns of sfnt-pingpong, or of pace those of sfnt-stream, in ns'"
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l raw -d 'Write raw samples to PREFIX-SIZE.dat: one line a message, send time and RTT in ns (pace: PREFIX-SIZE-RATE.dat, with the intended send time before them; wake: PREFIX-wake.dat, deadline and latency)' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l percentile -d 'The percentile of the %ile column of --format sfnt [default: 99]' -r
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l fork-both -d 'Run the far end here too: an endpoint on ADDR [default: 127.0.0.1, with -6 ::1] as a child, ended with the measurement. Both ends are then on one host. unix-stream, unix-dgram and pipe need no such flag'
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -s 4 -l ipv4 -d 'Use IPv4 when a name has both'
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -s 6 -l ipv6 -d 'Use IPv6 when a name has both'
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l explain -d 'Explain what is late in a second pass: by kernel events, or without CAP_BPF by the CPU times of threads'
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l ladder -d 'Give the percentiles from p25 to p99.999, too: a table of them, in CSV columns, in JSON `ladder`'
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand cycle" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and not __fish_seen_subcommand_from send recv ping reflect" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and not __fish_seen_subcommand_from send recv ping reflect" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and not __fish_seen_subcommand_from send recv ping reflect" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and not __fish_seen_subcommand_from send recv ping reflect" -f -a "send" -d 'Publish lines, a file or numbered messages on a group, and repair what receivers miss'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and not __fish_seen_subcommand_from send recv ping reflect" -f -a "recv" -d 'Print or count what the sources of a group publish, in order and repaired'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and not __fish_seen_subcommand_from send recv ping reflect" -f -a "ping" -d 'Publish numbered messages and time the answers of one `pgm reflect` or several'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and not __fish_seen_subcommand_from send recv ping reflect" -f -a "reflect" -d 'Publish each message of a group again on the next one, for `pgm ping`'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l file -d 'Send this file in messages of --size bytes; `-` is standard input' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l count -d 'Send so many numbered messages, which `recv --check` knows: number and time of sending in 8 bytes each, then a pattern' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l size -d 'Bytes of a message of --count, 8 to 65535 [default: 64], or of --file, 1 to 65535 [default: what a packet carries]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l rate -d 'Messages a second, such as 500 or 10k [default: 1000 with --count, else as fast as they come]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l wait -d 'Announce the source for this long before the first message: OpenPGM\'s receivers do not ask for what they miss before the first SPM' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l linger -d 'Answer NAKs for this long after the last message' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l gsi -d 'Global source identifier: six numbers with dots, as 10.1.2.3.4.5 [default: the own IPv4 address and two random numbers, or six random ones]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l source-port -d 'Data-source port [default: random]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l first -d 'Sequence number of the first packet: one near 4294967295 tests what the other end does when the numbers wrap' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l bandwidth -d 'Most bits a second of all packets of a source, such as 100M or 1G [default: 1G]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l ambient -d 'Time between two ambient SPMs, which announce the source and its transmit window' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l heartbeat -d 'First pause without data after which an SPM announces the last packet; it doubles up to --ambient' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l fec -d 'Parity (forward error correction) over groups of so many packets, a power of two from 2 to 128; all ends of pace use it, receivers of pgm with --use-fec' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l fec-proactive -d 'Send this many parity packets after each group unasked' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l fec-pause -d 'End a group that is not full after such a pause [default: never]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l interface -d 'Interface for the groups: its name, its number or one of its addresses [default: the one that routes to the group]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l local -d 'Own address, which NAKs come to [default: the interface\'s]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l carrier -d 'What packets travel in: udp, or raw (IP protocol 113; needs CAP_NET_RAW)' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l udp-port -d 'UDP port of the carrier; one source an address can have it, for NAKs come to it [default: 3056, with pgm --zeromq its --port]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l packet -d 'Longest packet in bytes, without headers of IP and UDP' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l window -d 'Packets that can be repaired, and that are kept behind a gap: a power of two' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l port -l data-port -d 'Data-destination port of PGM; both ends need the same' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l ttl -d 'Time to live, or hop limit, of what goes to the group' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l pcap -d 'Write this measurement\'s packets to FILE as pcapng; needs CAP_NET_RAW' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l pcap-snap -d 'Payload kept of each packet behind its headers' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l hex -d 'Lines of standard input are bytes in hexadecimal'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l fec-unasked -d 'Send no parity on demand, only that of --fec-proactive; further losses are repaired by single packets'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l no-loop -d 'Do not loop own packets back to other programs on this host'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l zeromq -d 'The other end is ZeroMQ\'s `epgm://`: UDP port and data port are one, and messages are in ZMTP 1.0 frames'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from send" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l count -d 'End after so many messages' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l for -d 'End after this time' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l idle -d 'End when nothing came for so long, counted from the first message' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l back-off -d 'Longest random wait before the first NAK for a packet' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l repeat -d 'Time to wait for the confirmation (NCF) of a NAK before the next NAK' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l data -d 'Time to wait for a confirmed repair before the next NAK' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l retries -d 'NAKs without a confirmation, and confirmations without a repair, after which a packet is given up' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l nak-path -d 'Where NAKs go: data (to where the data come from), or spm (where the SPM says, for networks whose routers speak PGM; whoever can forge an SPM then decides)' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l sources -d 'Sources at once. A new one replaces one that has ended or is silent, else it is refused (exit code 3). Each takes memory for --window packets' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l expiry -d 'Forget a source that was silent for so long' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l interface -d 'Interface for the groups: its name, its number or one of its addresses [default: the one that routes to the group]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l local -d 'Own address, which NAKs come to [default: the interface\'s]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l carrier -d 'What packets travel in: udp, or raw (IP protocol 113; needs CAP_NET_RAW)' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l udp-port -d 'UDP port of the carrier; one source an address can have it, for NAKs come to it [default: 3056, with pgm --zeromq its --port]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l packet -d 'Longest packet in bytes, without headers of IP and UDP' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l window -d 'Packets that can be repaired, and that are kept behind a gap: a power of two' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l port -l data-port -d 'Data-destination port of PGM; both ends need the same' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l ttl -d 'Time to live, or hop limit, of what goes to the group' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l pcap -d 'Write this measurement\'s packets to FILE as pcapng; needs CAP_NET_RAW' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l pcap-snap -d 'Payload kept of each packet behind its headers' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l format -d 'Form of the result on standard output' -r -f -a "text\t'One line a message; what is no printable text is escaped. Parts of one ZeroMQ message have ` | ` between them'
hex\t'One line of hexadecimal a message'
raw\t'The bytes as they came, with nothing between messages'
json\t'One JSON object a message, event or repair, with the lengths of its parts where a ZeroMQ message has several; the last one is the summary'"
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l until-fin -d 'End when every source that was heard has ended its session'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l check -d 'The messages are those of `send --count`: check number and pattern of each'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l use-fec -d 'Where a source offers parity, ask for it instead of single packets, and compute what is missing'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l no-loop -d 'Do not loop own packets back to other programs on this host'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l zeromq -d 'The other end is ZeroMQ\'s `epgm://`: UDP port and data port are one, and messages are in ZMTP 1.0 frames'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l summary -d 'Print no messages, only the summary'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l repairs -d 'Print each repair too, with its times'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from recv" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l reply-group -d 'Group that answers are published on [default: the next address]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l count -d 'Messages to send' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l rate -d 'Messages a second, such as 10 or 10k' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l size -d 'Bytes of a message, 32 or more' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l linger -d 'Time to wait for the answers to the last message' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l reflectors -d 'Wait for this many reflectors before sending, at most 10 s' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l gsi -d 'Global source identifier: six numbers with dots, as 10.1.2.3.4.5 [default: the own IPv4 address and two random numbers, or six random ones]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l source-port -d 'Data-source port [default: random]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l first -d 'Sequence number of the first packet: one near 4294967295 tests what the other end does when the numbers wrap' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l bandwidth -d 'Most bits a second of all packets of a source, such as 100M or 1G [default: 1G]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l ambient -d 'Time between two ambient SPMs, which announce the source and its transmit window' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l heartbeat -d 'First pause without data after which an SPM announces the last packet; it doubles up to --ambient' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l fec -d 'Parity (forward error correction) over groups of so many packets, a power of two from 2 to 128; all ends of pace use it, receivers of pgm with --use-fec' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l fec-proactive -d 'Send this many parity packets after each group unasked' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l fec-pause -d 'End a group that is not full after such a pause [default: never]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l back-off -d 'Longest random wait before the first NAK for a packet' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l repeat -d 'Time to wait for the confirmation (NCF) of a NAK before the next NAK' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l data -d 'Time to wait for a confirmed repair before the next NAK' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l retries -d 'NAKs without a confirmation, and confirmations without a repair, after which a packet is given up' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l nak-path -d 'Where NAKs go: data (to where the data come from), or spm (where the SPM says, for networks whose routers speak PGM; whoever can forge an SPM then decides)' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l sources -d 'Sources at once. A new one replaces one that has ended or is silent, else it is refused (exit code 3). Each takes memory for --window packets' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l expiry -d 'Forget a source that was silent for so long' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l interface -d 'Interface for the groups: its name, its number or one of its addresses [default: the one that routes to the group]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l local -d 'Own address, which NAKs come to [default: the interface\'s]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l carrier -d 'What packets travel in: udp, or raw (IP protocol 113; needs CAP_NET_RAW)' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l udp-port -d 'UDP port of the carrier; one source an address can have it, for NAKs come to it [default: 3056, with pgm --zeromq its --port]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l packet -d 'Longest packet in bytes, without headers of IP and UDP' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l window -d 'Packets that can be repaired, and that are kept behind a gap: a power of two' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l port -l data-port -d 'Data-destination port of PGM; both ends need the same' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l ttl -d 'Time to live, or hop limit, of what goes to the group' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l pcap -d 'Write this measurement\'s packets to FILE as pcapng; needs CAP_NET_RAW' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l pcap-snap -d 'Payload kept of each packet behind its headers' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l fec-unasked -d 'Send no parity on demand, only that of --fec-proactive; further losses are repaired by single packets'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l use-fec -d 'Where a source offers parity, ask for it instead of single packets, and compute what is missing'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l no-loop -d 'Do not loop own packets back to other programs on this host'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l zeromq -d 'The other end is ZeroMQ\'s `epgm://`: UDP port and data port are one, and messages are in ZMTP 1.0 frames'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from ping" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l reply-group -d 'Group that answers are published on [default: the next address]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l count -d 'End after so many messages' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l for -d 'End after this time' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l gsi -d 'Global source identifier: six numbers with dots, as 10.1.2.3.4.5 [default: the own IPv4 address and two random numbers, or six random ones]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l source-port -d 'Data-source port [default: random]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l first -d 'Sequence number of the first packet: one near 4294967295 tests what the other end does when the numbers wrap' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l bandwidth -d 'Most bits a second of all packets of a source, such as 100M or 1G [default: 1G]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l ambient -d 'Time between two ambient SPMs, which announce the source and its transmit window' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l heartbeat -d 'First pause without data after which an SPM announces the last packet; it doubles up to --ambient' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l fec -d 'Parity (forward error correction) over groups of so many packets, a power of two from 2 to 128; all ends of pace use it, receivers of pgm with --use-fec' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l fec-proactive -d 'Send this many parity packets after each group unasked' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l fec-pause -d 'End a group that is not full after such a pause [default: never]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l back-off -d 'Longest random wait before the first NAK for a packet' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l repeat -d 'Time to wait for the confirmation (NCF) of a NAK before the next NAK' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l data -d 'Time to wait for a confirmed repair before the next NAK' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l retries -d 'NAKs without a confirmation, and confirmations without a repair, after which a packet is given up' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l nak-path -d 'Where NAKs go: data (to where the data come from), or spm (where the SPM says, for networks whose routers speak PGM; whoever can forge an SPM then decides)' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l sources -d 'Sources at once. A new one replaces one that has ended or is silent, else it is refused (exit code 3). Each takes memory for --window packets' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l expiry -d 'Forget a source that was silent for so long' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l interface -d 'Interface for the groups: its name, its number or one of its addresses [default: the one that routes to the group]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l local -d 'Own address, which NAKs come to [default: the interface\'s]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l carrier -d 'What packets travel in: udp, or raw (IP protocol 113; needs CAP_NET_RAW)' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l udp-port -d 'UDP port of the carrier; one source an address can have it, for NAKs come to it [default: 3056, with pgm --zeromq its --port]' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l packet -d 'Longest packet in bytes, without headers of IP and UDP' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l window -d 'Packets that can be repaired, and that are kept behind a gap: a power of two' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l port -l data-port -d 'Data-destination port of PGM; both ends need the same' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l ttl -d 'Time to live, or hop limit, of what goes to the group' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l pcap -d 'Write this measurement\'s packets to FILE as pcapng; needs CAP_NET_RAW' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l pcap-snap -d 'Payload kept of each packet behind its headers' -r
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l fec-unasked -d 'Send no parity on demand, only that of --fec-proactive; further losses are repaired by single packets'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l use-fec -d 'Where a source offers parity, ask for it instead of single packets, and compute what is missing'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l no-loop -d 'Do not loop own packets back to other programs on this host'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l zeromq -d 'The other end is ZeroMQ\'s `epgm://`: UDP port and data port are one, and messages are in ZMTP 1.0 frames'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand pgm; and __fish_seen_subcommand_from reflect" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and not __fish_seen_subcommand_from check run top bench" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and not __fish_seen_subcommand_from check run top bench" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and not __fish_seen_subcommand_from check run top bench" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and not __fish_seen_subcommand_from check run top bench" -f -a "check" -d 'Check an exchange file and compute what it costs: bytes, rates, shares of links and of cycles'
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and not __fish_seen_subcommand_from check run top bench" -f -a "run" -d 'Run nodes of an exchange file: publish and receive topics each cycle, and count what was late or lost'
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and not __fish_seen_subcommand_from check run top bench" -f -a "top" -d 'Show the images of topics on this host until ended: rate, age, quality, losses, missed deadlines'
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and not __fish_seen_subcommand_from check run top bench" -f -a "bench" -d 'Measure what an image and a frame cost on this host'
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and __fish_seen_subcommand_from check" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and __fish_seen_subcommand_from check" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and __fish_seen_subcommand_from check" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and __fish_seen_subcommand_from check" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and __fish_seen_subcommand_from run" -l node -d 'Run this node; may be repeated [default: all nodes of the file, in this process]' -r
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and __fish_seen_subcommand_from run" -s t -l seconds -d 'End after so long' -r
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and __fish_seen_subcommand_from run" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and __fish_seen_subcommand_from run" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and __fish_seen_subcommand_from run" -l allow-public -d 'Use addresses that are not private, too: frames have no key'
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and __fish_seen_subcommand_from run" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and __fish_seen_subcommand_from run" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and __fish_seen_subcommand_from top" -l interval -d 'Time between two tables, over which rates are computed' -r
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and __fish_seen_subcommand_from top" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and __fish_seen_subcommand_from top" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and __fish_seen_subcommand_from top" -l once -d 'Print one table and end'
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and __fish_seen_subcommand_from top" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and __fish_seen_subcommand_from top" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and __fish_seen_subcommand_from top" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and __fish_seen_subcommand_from bench" -l size -d 'Bytes of data' -r
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and __fish_seen_subcommand_from bench" -s t -l seconds -d 'Measure for about so long' -r
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and __fish_seen_subcommand_from bench" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and __fish_seen_subcommand_from bench" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and __fish_seen_subcommand_from bench" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and __fish_seen_subcommand_from bench" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand exchange; and __fish_seen_subcommand_from bench" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand dump" -l count -d 'Stop after so many messages' -r
complete -c windhover -n "__fish_windhover_using_subcommand dump" -s t -l seconds -d 'Stop so long after the first packet (on an interface: after the start)' -r
complete -c windhover -n "__fish_windhover_using_subcommand dump" -l port -d 'Only packets from or to this port, whose UDP datagrams are then taken for data messages; may be repeated' -r
complete -c windhover -n "__fish_windhover_using_subcommand dump" -l pgm-port -d 'UDP datagrams from or to this port are PGM too, as those of 3055 and 3056 are; may be repeated' -r
complete -c windhover -n "__fish_windhover_using_subcommand dump" -l host -d 'Only packets from or to this address; may be repeated' -r
complete -c windhover -n "__fish_windhover_using_subcommand dump" -l format -d 'Form of the result on standard output' -r -f -a "text\t'One line a packet, then the summary'
json\t'One JSON object a line; the last one is the summary'"
complete -c windhover -n "__fish_windhover_using_subcommand dump" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand dump" -l all -d 'Print packets that are not Windhover\'s too'
complete -c windhover -n "__fish_windhover_using_subcommand dump" -l summary -d 'Print no packets, only the summary, also with --all'
complete -c windhover -n "__fish_windhover_using_subcommand dump" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand dump" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand dump" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand load" -s t -l seconds -d 'Run so long; without it, until interrupted' -r
complete -c windhover -n "__fish_windhover_using_subcommand load" -s j -l jobs -d 'Parallel jobs [default: 11 for build, else one a CPU]' -r
complete -c windhover -n "__fish_windhover_using_subcommand load" -l cpus -d 'CPUs it may use, such as 0,2-5' -r
complete -c windhover -n "__fish_windhover_using_subcommand load" -l command -d 'build: run this command in a loop instead of the built-in tree' -r
complete -c windhover -n "__fish_windhover_using_subcommand load" -l directory -d 'Folder for the command, or for temporary files' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand load" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand load" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand load" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand load" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand load" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand run" -s s -l policy -d 'Policy: fifo, rr, other, batch, idle or deadline; also fifo:10 and full names such as SCHED_FIFO' -r
complete -c windhover -n "__fish_windhover_using_subcommand run" -s P -l priority -d 'Priority, 1 to 99 for fifo and rr; higher is better [default: 1]' -r
complete -c windhover -n "__fish_windhover_using_subcommand run" -s b -l cpus -d 'CPUs it may run on: numbers, ranges, boot, active, nic:IF, node:N, sibling:N; ~LIST means all but LIST. If all CPUs belong to one shield, the program joins that shield' -r
complete -c windhover -n "__fish_windhover_using_subcommand run" -s q -l quantum -d 'Nice value (-20 to 19), or a slice in milliseconds such as 3ms (other and batch, Linux 6.12)' -r
complete -c windhover -n "__fish_windhover_using_subcommand run" -s c -l copies -d 'Start this many copies of the program at once, as RedHawk\'s -c does: no CPU number, which is --cpus. The exit code is the first that is not 0 [default: 1]' -r
complete -c windhover -n "__fish_windhover_using_subcommand run" -l deadline -d 'CPU time, deadline and period of SCHED_DEADLINE in microseconds, as RUNTIME:DEADLINE:PERIOD' -r
complete -c windhover -n "__fish_windhover_using_subcommand run" -s p -l pid -d 'Change these processes instead of starting a program: all threads of each' -r
complete -c windhover -n "__fish_windhover_using_subcommand run" -l tid -d 'Change these threads' -r
complete -c windhover -n "__fish_windhover_using_subcommand run" -s g -l group -d 'Change the processes of these process groups' -r
complete -c windhover -n "__fish_windhover_using_subcommand run" -s u -l user -d 'Change the processes of these users, by name or number' -r
complete -c windhover -n "__fish_windhover_using_subcommand run" -s n -l name -d 'Change the processes and threads of these names' -r
complete -c windhover -n "__fish_windhover_using_subcommand run" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand run" -l mlock -d 'Lock the program\'s memory before its first instruction: what it has and will have (all), what it has at the start (current), what it will have (future), or each page once it is used (onfault)' -r -f -a "all\t'Present and future'
current\t'Present'
future\t'Future'
onfault\t'Present and future, each page once it is used'"
complete -c windhover -n "__fish_windhover_using_subcommand run" -l prefault-stack -d 'Fault in so much of the program\'s stack before its first instruction' -r
complete -c windhover -n "__fish_windhover_using_subcommand run" -l timer-slack -d 'How late its timers may be, in nanoseconds [the kernel\'s default: 50000; none for real-time policies]' -r
complete -c windhover -n "__fish_windhover_using_subcommand run" -l cpu-dma-latency -d 'Keep CPUs out of idle states that take longer than so many microseconds to leave, while the program runs' -r
complete -c windhover -n "__fish_windhover_using_subcommand run" -l rt-limit -d 'CPU time that a real-time program may use without once sleeping before SIGXCPU ends it, in seconds, or none' -r
complete -c windhover -n "__fish_windhover_using_subcommand run" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand run" -s a -l all -d 'Every process of user space; with --info only: changing all at once is `windhover shield`\'s job'
complete -c windhover -n "__fish_windhover_using_subcommand run" -s i -l info -d 'Show how the tasks are scheduled'
complete -c windhover -n "__fish_windhover_using_subcommand run" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand run" -l inherit-policy -d 'Let children of a real-time program inherit its policy; without this they start as SCHED_OTHER'
complete -c windhover -n "__fish_windhover_using_subcommand run" -l force -d 'Allow priority 99, which competes with the kernel\'s own threads'
complete -c windhover -n "__fish_windhover_using_subcommand run" -l report -d 'Report on standard error at the program\'s end what disturbed it: context switches, migrations, faults, waiting'
complete -c windhover -n "__fish_windhover_using_subcommand run" -l stopped -d 'Stop before the first instruction, for our parent'
complete -c windhover -n "__fish_windhover_using_subcommand run" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and not __fish_seen_subcommand_from run probe capture profiles stat" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and not __fish_seen_subcommand_from run probe capture profiles stat" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and not __fish_seen_subcommand_from run probe capture profiles stat" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and not __fish_seen_subcommand_from run probe capture profiles stat" -f -a "run" -d 'Start an unmodified program on another network stack: its calls spin before they sleep, or its own process carries UDP and TCP'
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and not __fish_seen_subcommand_from run probe capture profiles stat" -f -a "probe" -d 'Measure every way past the kernel\'s network stack that an interface allows, and recommend one'
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and not __fish_seen_subcommand_from run probe capture profiles stat" -f -a "capture" -d 'Write the packets of a running program on --stack xdp to a pcapng file, because tcpdump does not see them'
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and not __fish_seen_subcommand_from run probe capture profiles stat" -f -a "profiles" -d 'List the profiles, or show what each setting of one does'
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and not __fish_seen_subcommand_from run probe capture profiles stat" -f -a "stat" -d 'Show the sockets of running programs, what carries them, and how their calls waited'
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from run" -l stack -d 'What carries the program\'s packets' -r -f -a "spin\t'The kernel\'s sockets; blocking calls spin before they sleep'
xdp\t'UDP and TCP in the program\'s process, past the kernel: needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF'
auto\t'xdp where the interface can be opened, else spin'"
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from run" -l interface -d 'With --stack xdp: the network interface [default: the only one that is up, or that of the default route]' -r
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from run" -l backend -d 'With --stack xdp: how frames get past the kernel [default: the first that opens]' -r -f -a "zero-copy\t'AF_XDP, without copies: needs the driver\'s support'
native\t'AF_XDP in the driver'
generic\t'AF_XDP behind the driver: every interface'
packet\t'AF_PACKET: every interface, needs CAP_NET_RAW, and CAP_NET_ADMIN for TCP on some kernels (`no-filter`)'"
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from run" -s p -l profile -d 'How long calls spin, and other settings: latency, latency-best, safe, or a file that ends in .toml' -r
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from run" -l capture -d 'With --stack xdp: write the packets of accelerated sockets to FILE as pcapng, from the first one on' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from run" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from run" -l require -d 'Do not run the program, or end it, where it or a socket of it cannot be accelerated'
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from run" -l audit -d 'Count the network calls that reach the kernel past the library, and say at the end what was not accelerated and why'
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from run" -s v -l verbose -d 'Print every setting with its value and where that comes from'
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from run" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from probe" -l to -d 'A `windhover serve`, started as root, on a host behind the interface' -r
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from probe" -l key-file -d 'File with that endpoint\'s key (see `windhover key`)' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from probe" -s t -l seconds -d 'No round begins later than so many seconds; at least three rounds are measured' -r
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from probe" -l size -d 'Message size in bytes' -r
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from probe" -l cpu -d 'CPU of this end [default: with --to any, else the first one allowed]' -r
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from probe" -l remote-cpu -d 'CPU of the far end [default: with --to any, else the second one allowed]' -r
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from probe" -l policy -d 'Scheduling policy of both ends: other, fifo:N, rr:N' -r
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from probe" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from probe" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from probe" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from probe" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from probe" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from capture" -s w -l write -d 'The file; what it held is gone. `-`: standard output' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from capture" -s c -l count -d 'Stop after so many packets' -r
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from capture" -s t -l seconds -d 'Stop so long after the start' -r
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from capture" -s s -l snap -d 'Bytes kept of each packet' -r
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from capture" -l buffer -d 'Memory between the program and this command in MiB, a power of two: what finds no room is counted as dropped' -r
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from capture" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from capture" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from capture" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from profiles" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from profiles" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from profiles" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from profiles" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from profiles" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from stat" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from stat" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from stat" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from stat" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand bypass; and __fish_seen_subcommand_from stat" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -s p -l proc -d 'No processes on these CPUs but those placed there' -r
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -s i -l irq -d 'No device interrupts on these CPUs' -r
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -s l -l loc -d 'No local timer interrupts on these CPUs; needs nohz_full= at boot' -r
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -s m -l mem -d 'Reserve the memory of these CPUs\' nodes for them' -r
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -s a -l all -d 'All of these, as far as this system can' -r
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -l backend -d 'Backend: auto, v2, v1, affinity, isolcpus' -r
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -l nic -d 'Put this device\'s interrupts, threads and queues onto the shield; may be repeated' -r
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -l flow -d 'Put this flow of the devices of --nic into a queue of the shield, as \'udp4 dst-port 7000\'; may be repeated' -r
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -l keep -d 'Leave this process, by id, name or unit, where it is; may be repeated' -r
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -l guard -d 'Keep running: check every SECS, repair and report what has changed; put everything back at the end (Ctrl-C)' -r
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -l for -d 'Put everything back after this time: 90s, 10m, 2h' -r
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -l verify -d 'Check the effect: a thread spins on each shielded CPU for SECS, and all that interrupted it is listed' -r
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -l state-dir -d 'Where the undo logs are; by default WINDHOVER_STATE, or /run/windhover' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -l root -d 'A tree of files in the place of the running system' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -l allow-boot-cpu -d 'The boot CPU may be shielded too'
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -l unlimited-rt -d 'Remove the limit on real-time CPU time (kernel.sched_rt_runtime_us = -1)'
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -l include-ancestors -d 'With backend affinity: rewrite the CPUs of PID 1 and of Windhover\'s own parent processes too'
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -s r -l reset -d 'Put everything back'
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -l force -d 'With --reset: also put back what others have changed since, and remove our control groups that no undo log has'
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -s c -l current -d 'Show the current state, CPU by CPU'
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -s n -l dry-run -d 'Only show what would be changed: each setting with its old and new value, and why'
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -s y -l yes -d 'Do not ask; needed where no terminal is there to ask'
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand shield; and not __fish_seen_subcommand_from exec" -f -a "exec" -d 'Put a shield up for as long as a command runs; its exit status is passed on'
complete -c windhover -n "__fish_windhover_using_subcommand shield; and __fish_seen_subcommand_from exec" -s p -l proc -d 'No processes on these CPUs but those placed there' -r
complete -c windhover -n "__fish_windhover_using_subcommand shield; and __fish_seen_subcommand_from exec" -s i -l irq -d 'No device interrupts on these CPUs' -r
complete -c windhover -n "__fish_windhover_using_subcommand shield; and __fish_seen_subcommand_from exec" -s l -l loc -d 'No local timer interrupts on these CPUs; needs nohz_full= at boot' -r
complete -c windhover -n "__fish_windhover_using_subcommand shield; and __fish_seen_subcommand_from exec" -s m -l mem -d 'Reserve the memory of these CPUs\' nodes for them' -r
complete -c windhover -n "__fish_windhover_using_subcommand shield; and __fish_seen_subcommand_from exec" -s a -l all -d 'All of these, as far as this system can' -r
complete -c windhover -n "__fish_windhover_using_subcommand shield; and __fish_seen_subcommand_from exec" -l backend -d 'Backend: auto, v2, v1, affinity, isolcpus' -r
complete -c windhover -n "__fish_windhover_using_subcommand shield; and __fish_seen_subcommand_from exec" -l nic -d 'Put this device\'s interrupts, threads and queues onto the shield; may be repeated' -r
complete -c windhover -n "__fish_windhover_using_subcommand shield; and __fish_seen_subcommand_from exec" -l flow -d 'Put this flow of the devices of --nic into a queue of the shield, as \'udp4 dst-port 7000\'; may be repeated' -r
complete -c windhover -n "__fish_windhover_using_subcommand shield; and __fish_seen_subcommand_from exec" -l keep -d 'Leave this process, by id, name or unit, where it is; may be repeated' -r
complete -c windhover -n "__fish_windhover_using_subcommand shield; and __fish_seen_subcommand_from exec" -l state-dir -d 'Where the undo logs are; by default WINDHOVER_STATE, or /run/windhover' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand shield; and __fish_seen_subcommand_from exec" -l root -d 'A tree of files in the place of the running system' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand shield; and __fish_seen_subcommand_from exec" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand shield; and __fish_seen_subcommand_from exec" -l allow-boot-cpu -d 'The boot CPU may be shielded too'
complete -c windhover -n "__fish_windhover_using_subcommand shield; and __fish_seen_subcommand_from exec" -l unlimited-rt -d 'Remove the limit on real-time CPU time (kernel.sched_rt_runtime_us = -1)'
complete -c windhover -n "__fish_windhover_using_subcommand shield; and __fish_seen_subcommand_from exec" -l include-ancestors -d 'With backend affinity: rewrite the CPUs of PID 1 and of Windhover\'s own parent processes too'
complete -c windhover -n "__fish_windhover_using_subcommand shield; and __fish_seen_subcommand_from exec" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand shield; and __fish_seen_subcommand_from exec" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and not __fish_seen_subcommand_from list active recommend show diff apply profile verify boot undo emit try" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand tune; and not __fish_seen_subcommand_from list active recommend show diff apply profile verify boot undo emit try" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and not __fish_seen_subcommand_from list active recommend show diff apply profile verify boot undo emit try" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and not __fish_seen_subcommand_from list active recommend show diff apply profile verify boot undo emit try" -f -a "list" -d 'List the built-in profiles'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and not __fish_seen_subcommand_from list active recommend show diff apply profile verify boot undo emit try" -f -a "active" -d 'Show what is applied now, and what each boot applies'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and not __fish_seen_subcommand_from list active recommend show diff apply profile verify boot undo emit try" -f -a "recommend" -d 'Name the built-in profile that fits this machine, and why'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and not __fish_seen_subcommand_from list active recommend show diff apply profile verify boot undo emit try" -f -a "show" -d 'Show the settings of a profile, each with its reason'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and not __fish_seen_subcommand_from list active recommend show diff apply profile verify boot undo emit try" -f -a "diff" -d 'Show what a profile would change on this machine, and what it would skip'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and not __fish_seen_subcommand_from list active recommend show diff apply profile verify boot undo emit try" -f -a "apply" -d 'Apply a profile\'s settings'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and not __fish_seen_subcommand_from list active recommend show diff apply profile verify boot undo emit try" -f -a "profile" -d 'Apply a profile\'s settings'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and not __fish_seen_subcommand_from list active recommend show diff apply profile verify boot undo emit try" -f -a "verify" -d 'Check whether a profile\'s settings still hold'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and not __fish_seen_subcommand_from list active recommend show diff apply profile verify boot undo emit try" -f -a "boot" -d 'Apply the profile that `apply --boot` chose; windhover-tune.service does so at each boot'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and not __fish_seen_subcommand_from list active recommend show diff apply profile verify boot undo emit try" -f -a "undo" -d 'Put back what applying profiles changed, newest first; boots apply them no longer'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and not __fish_seen_subcommand_from list active recommend show diff apply profile verify boot undo emit try" -f -a "emit" -d 'Write configuration for settings that need a boot or have to survive one; installs nothing'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and not __fish_seen_subcommand_from list active recommend show diff apply profile verify boot undo emit try" -f -a "try" -d 'Measure each setting by itself, interleaved with and without it, and report what helps here'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from list" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from list" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from list" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from list" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from active" -l state-dir -d 'Where the undo logs are; by default WINDHOVER_STATE, or /run/windhover' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from active" -l root -d 'A tree of files in the place of the running system' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from active" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from active" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from active" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from active" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from active" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from recommend" -l root -d 'A tree of files in the place of the running system' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from recommend" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from recommend" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from recommend" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from recommend" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from recommend" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from show" -l nic -d 'The network device that keys beginning with nic. are about' -r
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from show" -l set -d 'This setting too, or instead of the profile\'s' -r
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from show" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from show" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from show" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from show" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from diff" -l nic -d 'The network device that keys beginning with nic. are about' -r
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from diff" -l set -d 'This setting too, or instead of the profile\'s' -r
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from diff" -l state-dir -d 'Where the undo logs are; by default WINDHOVER_STATE, or /run/windhover' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from diff" -l root -d 'A tree of files in the place of the running system' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from diff" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from diff" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from diff" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from diff" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from diff" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from apply" -l nic -d 'The network device that keys beginning with nic. are about' -r
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from apply" -l set -d 'This setting too, or instead of the profile\'s' -r
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from apply" -l state-dir -d 'Where the undo logs are; by default WINDHOVER_STATE, or /run/windhover' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from apply" -l root -d 'A tree of files in the place of the running system' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from apply" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from apply" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from apply" -s n -l dry-run -d 'Only show what would be changed'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from apply" -s y -l yes -d 'Do not ask; needed where no terminal is there to ask'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from apply" -l boot -d 'Apply them at each boot, too, until `tune undo`: written to /etc/windhover, applied by windhover-tune.service'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from apply" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from apply" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from apply" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from profile" -l nic -d 'The network device that keys beginning with nic. are about' -r
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from profile" -l set -d 'This setting too, or instead of the profile\'s' -r
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from profile" -l state-dir -d 'Where the undo logs are; by default WINDHOVER_STATE, or /run/windhover' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from profile" -l root -d 'A tree of files in the place of the running system' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from profile" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from profile" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from profile" -s n -l dry-run -d 'Only show what would be changed'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from profile" -s y -l yes -d 'Do not ask; needed where no terminal is there to ask'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from profile" -l boot -d 'Apply them at each boot, too, until `tune undo`: written to /etc/windhover, applied by windhover-tune.service'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from profile" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from profile" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from profile" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from verify" -l nic -d 'The network device that keys beginning with nic. are about' -r
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from verify" -l set -d 'This setting too, or instead of the profile\'s' -r
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from verify" -l state-dir -d 'Where the undo logs are; by default WINDHOVER_STATE, or /run/windhover' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from verify" -l root -d 'A tree of files in the place of the running system' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from verify" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from verify" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from verify" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from verify" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from boot" -l state-dir -d 'Where the undo logs are; by default WINDHOVER_STATE, or /run/windhover' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from boot" -l root -d 'A tree of files in the place of the running system' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from boot" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from boot" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from boot" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from boot" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from boot" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from undo" -l state-dir -d 'Where the undo logs are; by default WINDHOVER_STATE, or /run/windhover' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from undo" -l root -d 'A tree of files in the place of the running system' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from undo" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from undo" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from undo" -l force -d 'Put back also what somebody else has changed since then'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from undo" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from undo" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from undo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from emit" -l nic -d 'The network device that keys beginning with nic. are about' -r
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from emit" -l set -d 'This setting too, or instead of the profile\'s' -r
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from emit" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from emit" -l grub -d 'The kernel\'s command line, for /etc/default/grub.d'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from emit" -l systemd -d 'A unit that applies the profile at boot'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from emit" -l tuned -d 'A profile of tuned'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from emit" -l udev -d 'Rules for the device named by --nic'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from emit" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from emit" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from try" -l set -d 'Try this setting too; several joined by \';\' are tried as one' -r
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from try" -l nic -d 'The network device that keys beginning with nic. mean on the hosts of --plan; in the built-in lab it is the lab\'s' -r
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from try" -l rounds -d 'How often each setting is measured [default: the fewest with which one of so many settings can be significant, at least 5]' -r
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from try" -l by -d 'The figure that decides: p50, p99, p99.9, mean or stdev' -r
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from try" -l least -d 'The least change that matters, in percent' -r
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from try" -l plan -d 'Measure the cells of this plan instead of the one that the flags below describe' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from try" -l lab -d 'Lab: netns or loopback, a new one of that kind; or the NAME of one that is up (lab up)' -r
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from try" -l protocol -d 'tcp, mptcp, udp, sctp, sctp-seqpacket, dccp, unix-stream, unix-dgram, pipe, shm or frame' -r
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from try" -l size -d 'Message size in bytes' -r
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from try" -s t -l seconds -d 'Seconds a measurement' -r
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from try" -l receive -d 'Receive mode: block, spin, poll, select, epoll ...; INITIATOR;REFLECTOR where they differ' -r
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from try" -l policy -d 'Policy: other, fifo:N, rr:N; INITIATOR;REFLECTOR where they differ' -r
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from try" -l cpu -d 'CPU of each end, INITIATOR;REFLECTOR: what helps depends on whether they share one' -r
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from try" -l load -d 'Load beside the measurement: none, build, cpu, memory, disk, net or context' -r
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from try" -l shield -d 'Shield meanwhile: off, affinity, v1, v2, isolcpus or auto' -r
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from try" -l seed -d 'Seed of the order' -r
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from try" -s o -l output -d 'Folder that the run directory is made in' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from try" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from try" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from try" -l keep -d 'Apply what helped at the end (`windhover tune undo` puts it back)'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from try" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from try" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand tune; and __fish_seen_subcommand_from try" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand doctor; and not __fish_seen_subcommand_from diff" -l cpus -d 'The CPUs to measure on: numbers and ranges (1,4-5), nic:IF, node:N; by default those behind a shield or isolated' -r
complete -c windhover -n "__fish_windhover_using_subcommand doctor; and not __fish_seen_subcommand_from diff" -l nic -d 'The network device to measure over; by default all with hardware and a link' -r
complete -c windhover -n "__fish_windhover_using_subcommand doctor; and not __fish_seen_subcommand_from diff" -l only -d 'Only these checks (cpu.smt) or sections (cpu)' -r
complete -c windhover -n "__fish_windhover_using_subcommand doctor; and not __fish_seen_subcommand_from diff" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand doctor; and not __fish_seen_subcommand_from diff" -l save -d 'Keep the document in this file, for `doctor diff`' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand doctor; and not __fish_seen_subcommand_from diff" -l root -d 'A tree of files in the place of the running system' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand doctor; and not __fish_seen_subcommand_from diff" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand doctor; and not __fish_seen_subcommand_from diff" -l measure -d 'Also measure on the first of these CPUs: the time that a spinning thread loses to others, and how long a real-time thread is stopped; keeps that CPU busy for about 3 s, half of it without any time for ordinary tasks'
complete -c windhover -n "__fish_windhover_using_subcommand doctor; and not __fish_seen_subcommand_from diff" -s v -l verbose -d 'Also show what is in order, all values read, and the source of each finding'
complete -c windhover -n "__fish_windhover_using_subcommand doctor; and not __fish_seen_subcommand_from diff" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand doctor; and not __fish_seen_subcommand_from diff" -l force -d 'With --save: replace the file'
complete -c windhover -n "__fish_windhover_using_subcommand doctor; and not __fish_seen_subcommand_from diff" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand doctor; and not __fish_seen_subcommand_from diff" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand doctor; and not __fish_seen_subcommand_from diff" -f -a "diff" -d 'Compare two saved documents: the two ends of a measurement, or one machine before and after'
complete -c windhover -n "__fish_windhover_using_subcommand doctor; and __fish_seen_subcommand_from diff" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand doctor; and __fish_seen_subcommand_from diff" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand doctor; and __fish_seen_subcommand_from diff" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand doctor; and __fish_seen_subcommand_from diff" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand doctor; and __fish_seen_subcommand_from diff" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand irq" -l cpu -d 'Only what comes to these CPUs: numbers and ranges (1,4-5), nic:IF, node:N [default: all; the busiest where the terminal is too narrow]' -r
complete -c windhover -n "__fish_windhover_using_subcommand irq" -s i -l interval -d 'Length of an interval in seconds' -r
complete -c windhover -n "__fish_windhover_using_subcommand irq" -s c -l count -d 'Stop after so many intervals' -r
complete -c windhover -n "__fish_windhover_using_subcommand irq" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand irq" -l state-dir -d 'Where the undo logs are; by default WINDHOVER_STATE, or /run/windhover' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand irq" -l root -d 'A tree of files in the place of the running system' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand irq" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand irq" -l all -d 'Also show rows with nothing in the interval'
complete -c windhover -n "__fish_windhover_using_subcommand irq" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand irq" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand irq" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand lab; and not __fish_seen_subcommand_from up down list boot exec" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand lab; and not __fish_seen_subcommand_from up down list boot exec" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand lab; and not __fish_seen_subcommand_from up down list boot exec" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand lab; and not __fish_seen_subcommand_from up down list boot exec" -f -a "up" -d 'Make a lab that stays until `lab down`'
complete -c windhover -n "__fish_windhover_using_subcommand lab; and not __fish_seen_subcommand_from up down list boot exec" -f -a "down" -d 'Remove a lab; programs that still run in it lose their network and are named. Virtual machines are switched off'
complete -c windhover -n "__fish_windhover_using_subcommand lab; and not __fish_seen_subcommand_from up down list boot exec" -f -a "list" -d 'List labs, their hosts and addresses'
complete -c windhover -n "__fish_windhover_using_subcommand lab; and not __fish_seen_subcommand_from up down list boot exec" -f -a "boot" -d 'Boot a kernel in a virtual machine and run a command in it; its exit status is passed on'
complete -c windhover -n "__fish_windhover_using_subcommand lab; and not __fish_seen_subcommand_from up down list boot exec" -f -a "exec" -d 'Run a command on a host of a lab; its exit status is passed on'
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from up" -l hosts -d 'How many hosts [default: 2]' -r
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from up" -l ports -d 'Move these real ports into the hosts instead of making a veth pair: a cable between two ports is then used' -r
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from up" -l guest -d 'Boot this kernel, as lab boot does, and make the hosts in it; no root is needed. Words behind it join its command line. Twice: two virtual machines on a wire, each with one host' -r
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from up" -l word -d 'Add a word to the kernel\'s command line; may be repeated' -r
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from up" -l mode -d 'How the CPUs of a virtual machine run [default: icount]' -r -f -a "icount\t'Emulated, 2 ns an instruction, one CPU: simulated times, which repeat'
kvm\t'On this machine\'s CPUs by /dev/kvm'
tcg\t'Emulated: for function, its times mean nothing'"
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from up" -l cpus -d 'CPUs of a virtual machine [default: 1]' -r
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from up" -l memory-mb -d 'Memory of a virtual machine in MB [default: 768]' -r
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from up" -l nic -d 'Network device of each host; without hosts, two are in the first network namespace [default: veth]' -r -f -a "veth\t'A virtual device of the kernel'
igb\t'Emulated Intel 82576: MSI-X, interrupt moderation, PTP clock; an older QEMU is left aside for a fetched one'
e1000e\t'Emulated Intel 82574L: MSI-X, interrupt moderation'"
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from up" -l module -d 'Load this module of the kernel; may be repeated' -r
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from up" -l overlay -d 'Add the files of this archive (cpio newc)' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from up" -l qemu -d 'Hand this argument to QEMU; may be repeated' -r
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from up" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from up" -l hold -d 'Stay, and say on standard output when it is up: the process that holds guests'
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from up" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from up" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from down" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from down" -l stale -d 'Remove the labs whose owner is gone'
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from down" -l all -d 'Remove all labs, as the removal of the package does'
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from down" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from down" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from list" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from list" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from list" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from list" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from boot" -l word -d 'Add a word to the kernel\'s command line; may be repeated' -r
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from boot" -l mode -d 'How the CPUs of a virtual machine run [default: icount]' -r -f -a "icount\t'Emulated, 2 ns an instruction, one CPU: simulated times, which repeat'
kvm\t'On this machine\'s CPUs by /dev/kvm'
tcg\t'Emulated: for function, its times mean nothing'"
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from boot" -l cpus -d 'CPUs of a virtual machine [default: 1]' -r
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from boot" -l memory-mb -d 'Memory of a virtual machine in MB [default: 768]' -r
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from boot" -l nic -d 'Network device of each host; without hosts, two are in the first network namespace [default: veth]' -r -f -a "veth\t'A virtual device of the kernel'
igb\t'Emulated Intel 82576: MSI-X, interrupt moderation, PTP clock; an older QEMU is left aside for a fetched one'
e1000e\t'Emulated Intel 82574L: MSI-X, interrupt moderation'"
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from boot" -l module -d 'Load this module of the kernel; may be repeated' -r
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from boot" -l overlay -d 'Add the files of this archive (cpio newc)' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from boot" -l qemu -d 'Hand this argument to QEMU; may be repeated' -r
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from boot" -l hosts -d 'Hosts (network namespaces) to make in it' -r
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from boot" -l host -d 'Run the command on this host, not in the first network namespace' -r
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from boot" -l limit -d 'Switch it off when the command takes longer, in seconds of this machine' -r
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from boot" -l console -d 'Write what the kernel prints to this file' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from boot" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from boot" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from boot" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from exec" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from exec" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand lab; and __fish_seen_subcommand_from exec" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and not __fish_seen_subcommand_from plan run resume list" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and not __fish_seen_subcommand_from plan run resume list" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and not __fish_seen_subcommand_from plan run resume list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and not __fish_seen_subcommand_from plan run resume list" -f -a "plan" -d 'Check a plan and show its cells and how long it takes'
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and not __fish_seen_subcommand_from plan run resume list" -f -a "run" -d 'Run a plan and write a run directory'
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and not __fish_seen_subcommand_from plan run resume list" -f -a "resume" -d 'Continue a run that was interrupted or killed'
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and not __fish_seen_subcommand_from plan run resume list" -f -a "list" -d 'List the runs in a folder'
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and __fish_seen_subcommand_from plan" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and __fish_seen_subcommand_from plan" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and __fish_seen_subcommand_from plan" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and __fish_seen_subcommand_from run" -s o -l output -d 'Folder that the run directory is made in' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and __fish_seen_subcommand_from run" -l lab -d 'Use this lab instead of the plan\'s: netns or loopback, a new one of that kind; or the NAME of one that is up (lab up)' -r
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and __fish_seen_subcommand_from run" -l label -d 'Set a label, such as nic=X520; may be repeated' -r
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and __fish_seen_subcommand_from run" -l seed -d 'Seed of the order instead of the plan\'s' -r
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and __fish_seen_subcommand_from run" -l repetitions -d 'Repetitions of every cell, instead of the plan\'s and its grids\'' -r
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and __fish_seen_subcommand_from run" -l repeat-runs -d 'Make this many runs, one after the other, each with the next seed: the samples of compare A1 A2 … --with B1 B2 … An error or an interrupt ends the series' -r
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and __fish_seen_subcommand_from run" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and __fish_seen_subcommand_from run" -l jsonl -d 'Write events to standard output as JSON lines: begin, cell, interval, result, failed, end'
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and __fish_seen_subcommand_from run" -s v -l verbose -d 'Print a line for each cell and each change of a host, not only what went wrong'
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and __fish_seen_subcommand_from run" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and __fish_seen_subcommand_from resume" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and __fish_seen_subcommand_from resume" -l jsonl -d 'Write events to standard output as JSON lines, as run does'
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and __fish_seen_subcommand_from resume" -s v -l verbose -d 'Print a line for each cell, as run does'
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and __fish_seen_subcommand_from resume" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and __fish_seen_subcommand_from resume" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and __fish_seen_subcommand_from list" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and __fish_seen_subcommand_from list" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand campaign; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand report" -l format -d 'Form of the result [default: from the ending of --output (.html, .md, .csv, .json, .txt), else html]' -r -f -a "table\t'Aligned text'
markdown\t'Markdown'
csv\t'CSV with one row a cell and repetition'
csv-cells\t'CSV with one row a cell, its repetitions together: the report\'s figures'
json\t'An array of result documents'
html\t'One self-contained file'"
complete -c windhover -n "__fish_windhover_using_subcommand report" -s o -l output -d 'File to write; one that exists only with --force, but for a run\'s own report.html [default: report.html in the first run for html, else standard output]' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand report" -l mix-substrates -d 'Put runs of different substrates side by side: name all of them, separated by commas' -r -f -a "metal\t''
vm\t''
simulated\t''
simulated-time\t''
netns\t''
loopback\t''
wine\t''
unknown\t''"
complete -c windhover -n "__fish_windhover_using_subcommand report" -l size -d 'Message size of the papers\' table in bytes [default: 32, or the nearest size that the runs have]' -r
complete -c windhover -n "__fish_windhover_using_subcommand report" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand report" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand report" -l force -d 'Overwrite the file'
complete -c windhover -n "__fish_windhover_using_subcommand report" -l reference -d 'Add the papers\' published rows, marked as measured on other hardware'
complete -c windhover -n "__fish_windhover_using_subcommand report" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand compare" -l with -d 'The run directories of the second side; leave them out to compare cells of one run' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand compare" -l axis -d 'Compare all values of this factor within one run, pairwise' -r
complete -c windhover -n "__fish_windhover_using_subcommand compare" -l where -d 'Only cells with this value, on both sides where --where-b does not say otherwise; may be repeated' -r
complete -c windhover -n "__fish_windhover_using_subcommand compare" -l where-b -d 'Only cells with this value on the second side; may be repeated' -r
complete -c windhover -n "__fish_windhover_using_subcommand compare" -l metric -d 'Figures to compare, separated by commas [default: all that the cells have]' -r
complete -c windhover -n "__fish_windhover_using_subcommand compare" -l fail-if -d 'A condition that must not hold; exit code 3 where it does; may be repeated' -r
complete -c windhover -n "__fish_windhover_using_subcommand compare" -l mix-substrates -d 'Put runs of different substrates side by side: name all of them, separated by commas' -r -f -a "metal\t''
vm\t''
simulated\t''
simulated-time\t''
netns\t''
loopback\t''
wine\t''
unknown\t''"
complete -c windhover -n "__fish_windhover_using_subcommand compare" -l format -d 'Form of the result on standard output' -r -f -a "text\t'Sentences and aligned tables'
json\t'All of it as one document'
csv\t'One row a figure'
markdown\t'Markdown'"
complete -c windhover -n "__fish_windhover_using_subcommand compare" -l seed -d 'Seed of the permutation test, where there are too many permutations to try all' -r
complete -c windhover -n "__fish_windhover_using_subcommand compare" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand compare" -l significant -d 'A gate is broken only where the evidence is significant, not by the estimate alone'
complete -c windhover -n "__fish_windhover_using_subcommand compare" -l rtt -d 'Show RTT instead of RTT/2'
complete -c windhover -n "__fish_windhover_using_subcommand compare" -l batches -d 'With one repetition a side, show the intervals that the batches within it give'
complete -c windhover -n "__fish_windhover_using_subcommand compare" -l all -d 'Show every pair of cells, not only all together'
complete -c windhover -n "__fish_windhover_using_subcommand compare" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand compare" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand compare" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand plot" -l figure -d 'What to draw: all of a kind, or one by its name in --list; may be repeated [default: the charts of the report, and heat maps of cells with a rate]' -r -f -a "heat\t'Heat map of each cell: latency by time'
heat-2011\t'The same data in the style of 2011'
lateness\t'Heat map of how late messages were sent'
cells\t'Heat maps of all cells on one scale in one picture'
difference\t'Heat map of the difference of two cells'
distributions\t'Distributions of all cells side by side'
percentiles\t'Share of messages that took longer'
ecdf\t'Share of messages that took at most as long'
rate\t'Latency, lateness and loss against rate'
size\t'Mean time against message size'
jitter\t'Jitter against message size'"
complete -c windhover -n "__fish_windhover_using_subcommand plot" -l cell -d 'Only this cell: a number of --list, or a part of a key that no other has; of a difference the first' -r
complete -c windhover -n "__fish_windhover_using_subcommand plot" -l against -d 'The second cell of a difference [default: the next with the same probe, protocol, size and rate]' -r
complete -c windhover -n "__fish_windhover_using_subcommand plot" -l repetition -d 'Which repetition of each cell [default: its first]' -r
complete -c windhover -n "__fish_windhover_using_subcommand plot" -l tag -d 'What a heat map shows: rtt, rtt_intended, lateness, wake_up, or one reflector\'s, such as rtt@b' -r
complete -c windhover -n "__fish_windhover_using_subcommand plot" -l mix-substrates -d 'Put runs of different substrates side by side: name all of them, separated by commas' -r -f -a "metal\t''
vm\t''
simulated\t''
simulated-time\t''
netns\t''
loopback\t''
wine\t''
unknown\t''"
complete -c windhover -n "__fish_windhover_using_subcommand plot" -l format -d 'Form of the files [default: from the ending of --output, else png]' -r -f -a "png\t'Pixels; a cell of a heat map is a whole number of them'
svg\t'Vectors, cells as one image; the same bytes for the same run'
pdf\t'A page of the figure\'s size: vectors, searchable text, cells as one image'
csv\t'The figures behind the picture, times in ns'"
complete -c windhover -n "__fish_windhover_using_subcommand plot" -s o -l output -d 'File for a single figure, or folder [default: plots in the first run]' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand plot" -l scale -d 'How colours follow counts' -r -f -a "log\t'By the logarithm of the count'
linear\t'Evenly'
rank\t'By rank: each colour equally often'"
complete -c windhover -n "__fish_windhover_using_subcommand plot" -l saturate -d 'Count from which on all cells look the same, or the share of cells below it, such as 99.5% [default: the largest]' -r
complete -c windhover -n "__fish_windhover_using_subcommand plot" -l rows -d 'Rows of latency: 32 an octave, or 10 µs each' -r -f -a "log\t'32 an octave'
linear\t'10 µs each'"
complete -c windhover -n "__fish_windhover_using_subcommand plot" -l from-us -d 'Lowest latency shown in µs; what lies below stands in one row [default: the smallest]' -r
complete -c windhover -n "__fish_windhover_using_subcommand plot" -l to-us -d 'Highest latency shown in µs; what lies above stands in one row [default: the largest]' -r
complete -c windhover -n "__fish_windhover_using_subcommand plot" -l columns -d 'Most columns of a heat map; intervals are added up until they fit' -r
complete -c windhover -n "__fish_windhover_using_subcommand plot" -l title -d 'Title instead of the figures\' own' -r
complete -c windhover -n "__fish_windhover_using_subcommand plot" -l size -d 'Size of the figures, such as 2 for twice as wide and high' -r
complete -c windhover -n "__fish_windhover_using_subcommand plot" -l font -d 'Font file for PNG and PDF (.ttf or .otf); SVG names its family [default: Roboto]' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand plot" -l palette -d 'Colours of counts' -r -f -a "viridis\t'Violet, blue, green, yellow'
magma\t'Black, violet, red, cream'
cividis\t'Blue, grey, yellow'"
complete -c windhover -n "__fish_windhover_using_subcommand plot" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand plot" -l all -d 'All figures that the runs have, not only the usual ones'
complete -c windhover -n "__fish_windhover_using_subcommand plot" -l list -d 'Print all figures that the runs have, and the cells with their numbers and keys, instead of writing'
complete -c windhover -n "__fish_windhover_using_subcommand plot" -l force -d 'Overwrite a file named with --output'
complete -c windhover -n "__fish_windhover_using_subcommand plot" -l dark -d 'For a dark page'
complete -c windhover -n "__fish_windhover_using_subcommand plot" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand plot" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand import" -s o -l output -d 'Folder that the run directory is made in' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand import" -l name -d 'Name of the run [default: the tool\'s]' -r
complete -c windhover -n "__fish_windhover_using_subcommand import" -l label -d 'Set a label, such as os=EVL or load=build; may be repeated' -r
complete -c windhover -n "__fish_windhover_using_subcommand import" -l substrate -d 'What the hosts were' -r -f -a "metal\t''
vm\t''
simulated\t''
simulated-time\t''
netns\t''
loopback\t''
wine\t''
unknown\t''"
complete -c windhover -n "__fish_windhover_using_subcommand import" -l size -d 'Message size in bytes, where the file does not tell it' -r
complete -c windhover -n "__fish_windhover_using_subcommand import" -l protocol -d 'What carried the messages, where the file does not tell it' -r
complete -c windhover -n "__fish_windhover_using_subcommand import" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand import" -l nanoseconds -d 'Times without a unit are in ns, not in µs (cyclictest -N)'
complete -c windhover -n "__fish_windhover_using_subcommand import" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand explain" -l cell -d 'Only this cell: a number of `windhover plot RUN --list`, or a part of a key that no other has' -r
complete -c windhover -n "__fish_windhover_using_subcommand explain" -l message -d 'Only the message with this number: its way through both ends, and what held it up' -r
complete -c windhover -n "__fish_windhover_using_subcommand explain" -l export -d 'Write the kernel\'s events around the message, or around the worst messages, to a file: .json for Perfetto and chrome://tracing, .txt as trace-cmd prints them' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand explain" -l late -d 'Late messages of each disturbance, end and load in the self-test: it goes on until it has so many' -r
complete -c windhover -n "__fish_windhover_using_subcommand explain" -l only -d 'Only the disturbances of the self-test whose row in its table contains this text, such as SIGSTOP or reflector' -r
complete -c windhover -n "__fish_windhover_using_subcommand explain" -l policy -d 'Scheduling policy of the measured threads in the self-test' -r
complete -c windhover -n "__fish_windhover_using_subcommand explain" -l live -d 'Follow a running program instead of a run: which of its messages waited after they had arrived, and for whom; a line a second, and the answer at the end' -r
complete -c windhover -n "__fish_windhover_using_subcommand explain" -s t -l seconds -d 'With --live: how long [default: until Ctrl-C, or until the program ends]' -r
complete -c windhover -n "__fish_windhover_using_subcommand explain" -l over -d 'With --live: which messages are late: those that wait longer than a time such as 100us, than the p99.9 so far, or (auto) than the p99 so far' -r
complete -c windhover -n "__fish_windhover_using_subcommand explain" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand explain" -l force -d 'With --export: replace the file'
complete -c windhover -n "__fish_windhover_using_subcommand explain" -l json -d 'Print JSON: the causes and the worst messages of each cell'
complete -c windhover -n "__fish_windhover_using_subcommand explain" -l self-test -d 'Make messages late on this host, in known ways and at known times, and count how many get the right cause; exit code 3 where too few do'
complete -c windhover -n "__fish_windhover_using_subcommand explain" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand explain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand show" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand show" -l reference -d 'Add the papers\' published rows, marked as measured on other hardware'
complete -c windhover -n "__fish_windhover_using_subcommand show" -l cells -d 'Show each cell\'s figures and verdicts too'
complete -c windhover -n "__fish_windhover_using_subcommand show" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand agent" -l build -d 'Fingerprint of the program outside, when this is a guest: its file is another one here' -r
complete -c windhover -n "__fish_windhover_using_subcommand agent" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand agent" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand agent" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand undo" -l format -d 'Form of the result on standard output' -r -f -a "text\t'For people'
json\t'One JSON document'"
complete -c windhover -n "__fish_windhover_using_subcommand undo" -l state-dir -d 'Where the undo logs are; by default WINDHOVER_STATE, or /run/windhover' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand undo" -l root -d 'A tree of files in the place of the running system' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand undo" -l netns -d 'Enter this network namespace first' -r -F
complete -c windhover -n "__fish_windhover_using_subcommand undo" -l color -d 'When to use colour' -r -f -a "auto\t'When standard error is a terminal'
always\t'Always'
never\t'Never'"
complete -c windhover -n "__fish_windhover_using_subcommand undo" -l list -d 'Only list the change sets and what they hold'
complete -c windhover -n "__fish_windhover_using_subcommand undo" -s J -l json -d 'As --format json, in the word of iperf3 and others'
complete -c windhover -n "__fish_windhover_using_subcommand undo" -s y -l yes -d 'Do not ask, also where the process that made the changes still runs and needs them'
complete -c windhover -n "__fish_windhover_using_subcommand undo" -l force -d 'Put back also what somebody else has changed since then'
complete -c windhover -n "__fish_windhover_using_subcommand undo" -l quiet -d 'Print no progress and no notes, only results and errors'
complete -c windhover -n "__fish_windhover_using_subcommand undo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "key" -d 'Make a shared key for `serve` and its clients'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "serve" -d 'Run an endpoint that sends messages back'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "pingpong" -d 'Time messages there and back, one at a time'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "rr" -d 'Count request/response transactions and the CPU they cost'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "ping" -d 'Time ICMP echoes'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "pace" -d 'Send messages at a fixed rate and time their answers, whether or not they keep up'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "stream" -d 'Send bulk data one way or both and count what arrives; shows what the load does to latency'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "wake" -d 'Time how late sleeping threads wake up, as cyclictest does'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "cycle" -d 'Publish data each cycle, have them echoed, and count missed deadlines'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "pgm" -d 'Send, receive and time messages over PGM, the reliable multicast protocol (RFC 3208)'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "exchange" -d 'Exchange process data between control PCs each cycle, and count what is late or lost'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "dump" -d 'Decode captured packets: Windhover\'s messages and the time between them'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "load" -d 'Run a background load and report how even it was'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "run" -d 'Start a program with policy, priority and CPUs, or change running tasks'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "bypass" -d 'Run unmodified programs on a faster network stack'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "shield" -d 'Keep other processes and interrupts off chosen CPUs, as RedHawk\'s shield(1) does'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "tune" -d 'Set many settings by a profile, and put them back'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "doctor" -d 'Check this machine for latency problems and suggest fixes'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "irq" -d 'Show how often interrupts and softirqs come to each CPU, live'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "lab" -d 'Make, list, use and remove labs of hosts'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "campaign" -d 'Run a plan: all combinations of its factors, interleaved and repeated'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "report" -d 'Report runs as a table, Markdown, CSV, JSON or one HTML file'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "compare" -d 'Compare runs, or cells of one run, with intervals and tests; gates for CI'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "plot" -d 'Write figures of runs as PNG, SVG, PDF or CSV: heat maps, differences of cells, charts'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "import" -d 'Turn results of other tools into a run for report, compare and plot'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "explain" -d 'Say why messages of a run were late: which causes, at which end, and what the tail would be without each'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "show" -d 'Show a run in the terminal'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "agent" -d 'Supervise one host for a campaign: requests on stdin, replies on stdout'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "undo" -d 'Put changed settings back as they were'
complete -c windhover -n "__fish_windhover_using_subcommand help; and not __fish_seen_subcommand_from key serve pingpong rr ping pace stream wake cycle pgm exchange dump load run bypass shield tune doctor irq lab campaign report compare plot import explain show agent undo help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from pgm" -f -a "send" -d 'Publish lines, a file or numbered messages on a group, and repair what receivers miss'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from pgm" -f -a "recv" -d 'Print or count what the sources of a group publish, in order and repaired'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from pgm" -f -a "ping" -d 'Publish numbered messages and time the answers of one `pgm reflect` or several'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from pgm" -f -a "reflect" -d 'Publish each message of a group again on the next one, for `pgm ping`'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from exchange" -f -a "check" -d 'Check an exchange file and compute what it costs: bytes, rates, shares of links and of cycles'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from exchange" -f -a "run" -d 'Run nodes of an exchange file: publish and receive topics each cycle, and count what was late or lost'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from exchange" -f -a "top" -d 'Show the images of topics on this host until ended: rate, age, quality, losses, missed deadlines'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from exchange" -f -a "bench" -d 'Measure what an image and a frame cost on this host'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from bypass" -f -a "run" -d 'Start an unmodified program on another network stack: its calls spin before they sleep, or its own process carries UDP and TCP'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from bypass" -f -a "probe" -d 'Measure every way past the kernel\'s network stack that an interface allows, and recommend one'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from bypass" -f -a "capture" -d 'Write the packets of a running program on --stack xdp to a pcapng file, because tcpdump does not see them'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from bypass" -f -a "profiles" -d 'List the profiles, or show what each setting of one does'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from bypass" -f -a "stat" -d 'Show the sockets of running programs, what carries them, and how their calls waited'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from shield" -f -a "exec" -d 'Put a shield up for as long as a command runs; its exit status is passed on'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from tune" -f -a "list" -d 'List the built-in profiles'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from tune" -f -a "active" -d 'Show what is applied now, and what each boot applies'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from tune" -f -a "recommend" -d 'Name the built-in profile that fits this machine, and why'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from tune" -f -a "show" -d 'Show the settings of a profile, each with its reason'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from tune" -f -a "diff" -d 'Show what a profile would change on this machine, and what it would skip'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from tune" -f -a "apply" -d 'Apply a profile\'s settings'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from tune" -f -a "verify" -d 'Check whether a profile\'s settings still hold'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from tune" -f -a "boot" -d 'Apply the profile that `apply --boot` chose; windhover-tune.service does so at each boot'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from tune" -f -a "undo" -d 'Put back what applying profiles changed, newest first; boots apply them no longer'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from tune" -f -a "emit" -d 'Write configuration for settings that need a boot or have to survive one; installs nothing'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from tune" -f -a "try" -d 'Measure each setting by itself, interleaved with and without it, and report what helps here'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from doctor" -f -a "diff" -d 'Compare two saved documents: the two ends of a measurement, or one machine before and after'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from lab" -f -a "up" -d 'Make a lab that stays until `lab down`'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from lab" -f -a "down" -d 'Remove a lab; programs that still run in it lose their network and are named. Virtual machines are switched off'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from lab" -f -a "list" -d 'List labs, their hosts and addresses'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from lab" -f -a "boot" -d 'Boot a kernel in a virtual machine and run a command in it; its exit status is passed on'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from lab" -f -a "exec" -d 'Run a command on a host of a lab; its exit status is passed on'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from campaign" -f -a "plan" -d 'Check a plan and show its cells and how long it takes'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from campaign" -f -a "run" -d 'Run a plan and write a run directory'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from campaign" -f -a "resume" -d 'Continue a run that was interrupted or killed'
complete -c windhover -n "__fish_windhover_using_subcommand help; and __fish_seen_subcommand_from campaign" -f -a "list" -d 'List the runs in a folder'

function __fish_windhover_known
    set -l words (commandline -opc) (commandline -ct)
    $words[1] complete -- $words[2..-1] 2>/dev/null | string replace -r -- '^--[a-z-]*=' ''
end
complete -c windhover -n 'test -n "$(__fish_windhover_known)"' -f -a '(__fish_windhover_known)'
complete -c windhover -l against -r -n 'test -n "$(__fish_windhover_known)"' -f -a '(__fish_windhover_known)'
complete -c windhover -l axis -r -n 'test -n "$(__fish_windhover_known)"' -f -a '(__fish_windhover_known)'
complete -c windhover -l cell -r -n 'test -n "$(__fish_windhover_known)"' -f -a '(__fish_windhover_known)'
complete -c windhover -l interface -r -n 'test -n "$(__fish_windhover_known)"' -f -a '(__fish_windhover_known)'
complete -c windhover -l lab -r -n 'test -n "$(__fish_windhover_known)"' -f -a '(__fish_windhover_known)'
complete -c windhover -l nic -r -n 'test -n "$(__fish_windhover_known)"' -f -a '(__fish_windhover_known)'
complete -c windhover -l profile -r -n 'test -n "$(__fish_windhover_known)"' -f -a '(__fish_windhover_known)'
complete -c windhover -l where -r -n 'test -n "$(__fish_windhover_known)"' -f -a '(__fish_windhover_known)'
complete -c windhover -l where-b -r -n 'test -n "$(__fish_windhover_known)"' -f -a '(__fish_windhover_known)'
complete -c windhover -l with -r -n 'test -n "$(__fish_windhover_known)"' -f -a '(__fish_windhover_known)'
