//! Other servers and runtimes than those of `programs`, with the library at neither end, at one of them and at both.

use super::programs::{Case, PAIRINGS, Server, Stack, content, ends, number};
use super::stat;
use super::support::{assert_code, stdout};
use std::process::Command;

const BOTH: [Stack; 2] = [Stack::Spin, Stack::Xdp];

/// A server, a client, and what of the client's words must not depend on who is behind the library.
struct Pair<'a> {
    what: &'a str,
    server: &'a [&'a str],
    protocol: &'a str,
    client: &'a [&'a str],
    result: &'a dyn Fn(&str) -> String,
}

/// Those of them whose server is on the kernel.
const OF_CLIENTS: &[(bool, bool)] = PAIRINGS.split_at(2).0;

impl Case {
    /// Runs both ends in all pairings.
    #[track_caller]
    fn compare(&self, pair: &Pair<'_>) {
        self.compare_in(&PAIRINGS, pair);
    }

    #[track_caller]
    fn compare_in(&self, pairings: &[(bool, bool)], pair: &Pair<'_>) {
        let mut plain = None;
        for pairing in pairings {
            let server = self.serve(pairing.0, pair.server, pair.protocol);
            let said = (pair.result)(&self.client_says(pairing.1, pair.client, pair.protocol));
            assert!(!said.is_empty(), "{} said nothing", pair.what);
            assert_eq!(plain.get_or_insert_with(|| said.clone()), &said, "{}, {}", pair.what, ends(*pairing));
            let carried = if pairing.0 { self.assert_carried(pair.what) } else { String::new() };
            self.row(&format!("{}, {}: the same as on the kernel{carried}", pair.what, ends(*pairing)));
            drop(server);
        }
    }

    /// A server and a client of one program, in several ways, each with its protocol.
    #[track_caller]
    fn compare_ways(&self, program: &[&str], ways: [(&str, &str); 3]) {
        for (how, protocol) in ways {
            let line = |role| [program, &[role, how, &self.address, &self.port]].concat();
            self.compare(&Pair {
                what: how,
                server: &line("server"),
                protocol,
                client: &line("client"),
                result: &whole,
            });
        }
    }

    /// Runs a client to its end; on xdp, the kernel of its namespace begins no connection for it.
    #[track_caller]
    fn client_says(&self, behind: bool, line: &[&str], protocol: &str) -> String {
        let before = self.opened_by_kernel();
        let said = stdout(&self.client(behind, line));
        if self.stack == Stack::Xdp && protocol == "tcp" {
            let by_kernel = self.opened_by_kernel() - before;
            assert_eq!(by_kernel == 0.0, behind, "{line:?}: {by_kernel} connections of the client's kernel");
        }
        said
    }

    /// Connections that the kernel of the clients' namespace has begun.
    fn opened_by_kernel(&self) -> f64 {
        let text = stdout(&self.command(0, false, &["cat", "/proc/net/snmp"]).output().unwrap());
        let row = |at: usize| text.lines().filter(|line| line.starts_with("Tcp:")).nth(at).unwrap().split(' ');
        let at = row(0).position(|name| name == "ActiveOpens").unwrap();
        row(1).nth(at).unwrap().parse().unwrap()
    }

    /// Asserts that the server's calls went through the library; on xdp, that frames did not go through the kernel.
    #[track_caller]
    fn assert_carried(&self, what: &str) -> String {
        if self.stack == Stack::Spin {
            assert!(self.waited() > 0, "{what}");
            return String::new();
        }
        let mut frames = 0;
        // The page's figures of the interface may be a second old.
        super::support::until(&format!("{what}: no frames past the kernel"), || {
            frames = stat(&self.folder).iter().filter_map(|page| page["carrier"]["received"].as_u64()).sum();
            frames > 0_u64
        });
        format!(", {frames} frames received past the kernel")
    }
}

/// Each line, for results that are compared as they are.
fn whole(text: &str) -> String {
    text.to_owned()
}

#[test]
#[ignore = "cargo xtask test --bypass"]
fn java() {
    for stack in BOTH {
        let Some(case) = Case::new("java", stack, &["java", "javac"]) else { return };
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bypass/Ends.java");
        let built = Command::new("javac").args(["-d", case.folder.path(), source]).output().unwrap();
        assert!(built.status.success(), "{built:?}");
        let program = ["java", "-cp", case.folder.path(), "Ends"];
        case.compare_ways(&program, [("blocking", "tcp"), ("channels", "tcp"), ("datagrams", "udp")]);
    }
}

#[test]
#[ignore = "cargo xtask test --bypass"]
fn node() {
    for stack in BOTH {
        let Some(case) = Case::new("node", stack, &["node"]) else { return };
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bypass/ends.js");
        case.compare_ways(&["node", source], [("net", "tcp"), ("http", "tcp"), ("dgram", "udp")]);
    }
}

#[test]
#[ignore = "cargo xtask test --bypass"]
fn iperf2() {
    for stack in BOTH {
        let Some(case) = Case::new("iperf2", stack, &["iperf"]) else { return };
        let place = ["-p", &case.port, "-f", "m"];
        // Bytes came, however many.
        let result = |text: &str| {
            let last = text.lines().rfind(|line| line.contains("bits/sec")).unwrap_or_else(|| panic!("{text}"));
            assert!(number(last, "MBytes ") > 0.0, "{text}");
            "bytes came".to_owned()
        };
        for (protocol, to_server, to_client) in
            [("tcp", &[][..], &["-P", "2"][..]), ("udp", &["-u"], &["-u", "-b", "20M"])]
        {
            let server = [&["iperf", "-s", "-B", &case.address], to_server, &place].concat();
            let client = [&["iperf", "-c", &case.address, "-t", "1"], to_client, &place].concat();
            // By UDP the server asks for time stamps, which only the kernel has.
            let pairings = if (stack, protocol) == (Stack::Xdp, "udp") { OF_CLIENTS } else { &PAIRINGS };
            case.compare_in(
                pairings,
                &Pair { what: protocol, server: &server, protocol, client: &client, result: &result },
            );
        }
    }
}

#[test]
#[ignore = "cargo xtask test --bypass"]
fn pythons_http_server() {
    for stack in BOTH {
        let Some(case) = Case::new("pythons_http_server", stack, &["python3", "curl"]) else { return };
        std::fs::write(case.folder.0.join("content"), content()).unwrap();
        let server = ["python3", "-m", "http.server", "--bind", &case.address, &case.port];
        let url = |name: &str| format!("http://{}:{}/{name}", case.address, case.port);
        let fetch =
            "for at in 1 2 3 4 5 6; do curl -s -S $0 | sha256sum; done; curl -s -o /dev/null -w '%{http_code}' $1";
        let client = ["sh", "-c", fetch, &url("content"), &url("no")];
        case.compare(&Pair { what: "curl", server: &server, protocol: "tcp", client: &client, result: &whole });
    }
}

#[test]
#[ignore = "cargo xtask test --bypass"]
fn memcached() {
    const CLIENT: &str = "import socket, sys, threading\n\
        def talk(number):\n\
        \x20   end = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n\
        \x20   lines = end.makefile('rwb')\n\
        \x20   for at in range(200):\n\
        \x20       value = (b'%d ' % (at * number)) * (at * 10 + 1)\n\
        \x20       lines.write(b'set %d-%d 0 0 %d\\r\\n%s\\r\\nget %d-%d\\r\\n' % (number, at, len(value), value, number, at))\n\
        \x20       lines.flush()\n\
        \x20       said = [lines.readline() for _ in range(4)]\n\
        \x20       right[number] += said[0] == b'STORED\\r\\n' and said[2] == value + b'\\r\\n'\n\
        right = [0] * 8\n\
        threads = [threading.Thread(target=talk, args=(number,)) for number in range(8)]\n\
        [one.start() for one in threads]\n\
        [one.join() for one in threads]\n\
        print(right)\n";
    for stack in BOTH {
        let Some(case) = Case::new("memcached", stack, &["memcached", "python3"]) else { return };
        let server = ["memcached", "-u", "root", "-l", &case.address, "-p", &case.port, "-U", "0", "-t", "2"];
        let client = ["python3", "-c", CLIENT, &case.address, &case.port];
        let result = |text: &str| {
            assert_eq!(text.trim(), format!("{:?}", [200; 8]));
            whole(text)
        };
        case.compare(&Pair {
            what: "8 connections",
            server: &server,
            protocol: "tcp",
            client: &client,
            result: &result,
        });
    }
}

/// haproxy before a server on the client's host: both of its sides are behind the library.
#[test]
#[ignore = "cargo xtask test --bypass"]
fn haproxy() {
    for stack in BOTH {
        let Some(case) = Case::new("haproxy", stack, &["haproxy", "python3", "ab"]) else { return };
        std::fs::write(case.folder.0.join("content"), content()).unwrap();
        let at = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        let mut behind = case.command(0, false, &["python3", "-m", "http.server", "--bind", &case.near, &at]);
        let _behind = Server(std::os::unix::process::CommandExt::process_group(&mut behind, 0).spawn().unwrap());
        let configuration = format!(
            "global\n nbthread 2\ndefaults\n mode http\n timeout connect 5s\n timeout client 10s\n timeout server 10s\n\
             frontend f\n bind {}:{}\n default_backend b\nbackend b\n server s {}:{at}\n",
            case.address, case.port, case.near
        );
        let configuration = case.folder.file("haproxy.cfg", &configuration);
        let url = |name: &str| format!("http://{}:{}/{name}", case.address, case.port);
        let fetch =
            "for at in 1 2 3; do curl -s -S $0 | sha256sum; done; ab -q -k -c 10 -n 300 $1 | grep 'Failed\\|Complete'";
        case.compare(&Pair {
            what: "curl and ab",
            server: &["haproxy", "-db", "-f", &configuration],
            protocol: "tcp",
            client: &["sh", "-c", fetch, &url("content"), &url("haproxy.cfg")],
            result: &whole,
        });
    }
}

#[test]
#[ignore = "cargo xtask test --bypass"]
fn nginx_with_wrk() {
    for stack in BOTH {
        let Some(case) = Case::new("nginx_with_wrk", stack, &["nginx", "wrk"]) else { return };
        let configuration = super::programs::nginx(&case);
        let url = format!("http://{}:{}/nginx.conf", case.address, case.port);
        let result = |text: &str| {
            assert!(number(text, "Requests/sec:") > 10.0, "{text}");
            assert!(!text.contains("Socket errors") && !text.contains("Non-2xx"), "{text}");
            "no errors".to_owned()
        };
        case.compare(&Pair {
            what: "20 connections kept alive",
            server: &["nginx", "-p", case.folder.path(), "-c", &configuration],
            protocol: "tcp",
            client: &["wrk", "-t", "2", "-c", "20", "-d", "1s", &url],
            result: &result,
        });
    }
}

/// A process for each connection, which becomes the kernel's on xdp; and a program that gets it as its standard input and output.
#[test]
#[ignore = "cargo xtask test --bypass"]
fn pythons_forking_server() {
    const SERVER: &str = "import socketserver, sys\n\
        class Echo(socketserver.StreamRequestHandler):\n\
        \x20   def handle(self):\n\
        \x20       for line in self.rfile:\n\
        \x20           self.wfile.write(line.upper())\n\
        class Forking(socketserver.ForkingTCPServer):\n\
        \x20   allow_reuse_address = True\n\
        Forking((sys.argv[1], int(sys.argv[2])), Echo).serve_forever()\n";
    const STARTER: &str = "import socket, subprocess, sys\n\
        listener = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=64)\n\
        while True:\n\
        \x20   one, _ = listener.accept()\n\
        \x20   subprocess.Popen(['tr', 'a-z', 'A-Z'], stdin=one, stdout=one)\n\
        \x20   one.close()\n";
    let talk = "for at in 1 2 3 4 5; do seq -f 'line %g of many' 2000 | nc -N $0 $1 | sha256sum; done";
    for (stack, server, what) in [
        (Stack::Spin, SERVER, "nc"),
        (Stack::Xdp, SERVER, "nc"),
        (Stack::Spin, STARTER, "nc, a program started"),
        (Stack::Xdp, STARTER, "nc, a program started"),
    ] {
        let Some(case) = Case::new("pythons_forking_server", stack, &["python3", "nc"]) else { return };
        case.compare(&Pair {
            what,
            server: &["python3", "-c", server, &case.address, &case.port],
            protocol: "tcp",
            client: &["sh", "-c", talk, &case.address, &case.port],
            result: &whole,
        });
    }
}

/// A process for each connection, started anew by exec, and a sandbox that forbids system calls.
#[test]
#[ignore = "cargo xtask test --bypass"]
fn ssh() {
    for (stack, pairings) in SERVERS_OF_MANY {
        let Some(case) = Case::new("ssh", stack, &["/usr/sbin/sshd", "ssh"]) else { return };
        ssh_behind(&case, pairings);
    }
}

/// How servers are compared that shut themselves in, or run without rights of root: on xdp their clients alone.
const SERVERS_OF_MANY: [(Stack, &[(bool, bool)]); 2] = [(Stack::Spin, &PAIRINGS), (Stack::Xdp, OF_CLIENTS)];

fn ssh_behind(case: &Case, pairings: &[(bool, bool)]) {
    const START: &str = "mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec /usr/sbin/sshd -D -f $0";
    let root = case.folder.path();
    for name in ["host", "user"] {
        let mut made = Command::new("ssh-keygen");
        made.args(["-q", "-t", "ed25519", "-N", "", "-f", &format!("{root}/{name}")]);
        assert!(made.status().unwrap().success());
    }
    std::fs::write(case.folder.0.join("content"), content()).unwrap();
    let configuration = format!(
        "ListenAddress {}\nPort {}\nHostKey {root}/host\nAuthorizedKeysFile {root}/user.pub\nStrictModes no\nUsePAM no\n\
         PermitRootLogin yes\nPidFile none\n",
        case.address, case.port
    );
    let configuration = case.folder.file("sshd_config", &configuration);
    let options =
        "-F none -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o BatchMode=yes";
    let fetch =
        format!("for at in 1 2 3; do ssh {options} -i {root}/user -p $1 root@$0 cat {root}/content | sha256sum; done");
    case.compare_in(
        pairings,
        &Pair {
            what: "4 MB, three times",
            server: &["unshare", "-m", "sh", "-c", START, &configuration],
            protocol: "tcp",
            client: &["sh", "-c", &fetch, &case.address, &case.port],
            result: &|text| {
                assert!(text.lines().count() == 3 && !text.contains("e3b0c44298fc1c14"), "no bytes: {text}");
                whole(text)
            },
        },
    );
}

/// A process for each connection, of a server that runs without root's rights.
#[test]
#[ignore = "cargo xtask test --bypass"]
fn postgresql() {
    for (stack, pairings) in SERVERS_OF_MANY {
        let Some(case) = Case::new("postgresql", stack, &["runuser", "pg_lsclusters"]) else { return };
        postgresql_behind(&case, pairings);
    }
}

fn postgresql_behind(case: &Case, pairings: &[(bool, bool)]) {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    let versions = std::fs::read_dir("/usr/lib/postgresql").unwrap();
    let folder = versions.flatten().map(|version| version.path().join("bin")).max().unwrap();
    let program = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let user = nix::unistd::User::from_name("postgres").unwrap().unwrap();
    let root = case.folder.path();
    let (data, state, windhover) = (format!("{root}/data"), format!("{root}/own-state"), format!("{root}/windhover"));
    for path in [&data, &state] {
        std::fs::create_dir(path).unwrap();
        chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    super::support::copy_windhover(windhover.as_ref());
    let set_up = Command::new("runuser")
        .args(["-u", "postgres", "--", &program("initdb"), "-A", "trust", "-D", &data])
        .current_dir(&data)
        .output()
        .unwrap();
    assert!(set_up.status.success(), "{set_up:?}");
    std::fs::write(format!("{data}/pg_hba.conf"), "host all all all trust\n").unwrap();
    let (state, postgres) = (format!("WINDHOVER_STATE={state}"), program("postgres"));
    let run = [&windhover, "bypass", "run", "--require", "--"];
    let server = [&postgres, "-D", &data, "-h", &case.address, "-p", &case.port, "-k", ""];
    let place = format!("-h {} -p {} -U postgres", case.address, case.port);
    let talk = format!(
        "until {ready} {place} -q; do sleep 0.1; done; {psql} {place} -Atc 'select sum(i), md5(string_agg(i::text, chr(44))) from generate_series(1, 200000) i' && \
         {pgbench} {place} -i -q postgres 2>/dev/null >&2 && {pgbench} {place} -c 4 -j 2 -t 100 postgres 2>/dev/null | grep failed",
        ready = program("pg_isready"),
        psql = program("psql"),
        pgbench = program("pgbench")
    );
    let mut plain = None;
    for pairing in pairings {
        let behind: &[&str] = if pairing.0 { &run } else { &[] };
        let line = [&["runuser", "-u", "postgres", "--", "env", &state], behind, &server].concat();
        let server = case.serve(false, &line, "tcp");
        let said = case.client_says(pairing.1, &["sh", "-c", &talk], "tcp");
        assert!(said.contains("failed transactions: 0 "), "{said}");
        assert_eq!(plain.get_or_insert_with(|| said.clone()), &said, "{}", ends(*pairing));
        if pairing.0 {
            // Its pages are of its user.
            let stat = ["-u", "postgres", "--", "env", &state, &windhover, "bypass", "stat", "--format", "json"];
            let pages = Command::new("runuser").args(stat).current_dir(root).output().unwrap();
            assert_code(&pages, 0);
            let pages: Vec<serde_json::Value> = serde_json::from_slice(&pages.stdout).unwrap();
            let waited: u64 = pages.iter().map(super::programs::all_waited).sum();
            assert!(waited > 0, "{}: no call of the server went through the library", ends(*pairing));
        }
        case.row(&format!("psql and pgbench, {}: the same as on the kernel", ends(*pairing)));
        drop(server);
    }
}
