//! Programs of others, with the library at neither end, at one of them and at both: the result must be the same. Behind `spin` they
//! talk over loopback, behind `xdp` between two namespaces.
//!
//! `cargo xtask test --bypass` runs them all and prints what was seen; one of them is among the normal tests.

use super::support::{Folder, can_make_namespaces, stderr, stdout, windhover};
use super::{Started, stat, waited};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Seconds that a client may take.
const LIMIT_S: &str = "60";

/// Which ends are behind the library: server, client.
pub(super) const PAIRINGS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

/// What carries the ends that are behind the library.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stack {
    /// Between processes of this host.
    Spin,
    /// Between two namespaces, because frames past the kernel need an interface.
    Xdp,
}

/// The state of a case.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) folder: Folder,
    pub(super) port: String,
    /// Where the server listens.
    pub(super) address: String,
    /// Where clients are.
    pub(super) near: String,
    pub(super) stack: Stack,
    /// The lab's network namespaces: of clients, of the server.
    pub(super) namespaces: Option<[String; 2]>,
}

impl Drop for Case {
    fn drop(&mut self) {
        if self.namespaces.is_some() {
            let _ = windhover(&["lab", "down", self.lab()]).env("WINDHOVER_STATE", self.state()).output();
        }
    }
}

impl Case {
    /// Nothing where a program is missing, or the stack cannot run.
    pub(super) fn new(name: &'static str, stack: Stack, programs: &[&str]) -> Option<Self> {
        if let Some(missing) = programs.iter().find(|program| !is_installed(program)) {
            eprintln!("SKIPPED programs::{name}: {missing} is not installed");
            return None;
        }
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port().to_string();
        let [near, address] = [(); 2].map(|()| Ipv4Addr::LOCALHOST.to_string());
        let folder = Folder::new(&format!("bypass-{name}"));
        let mut case = Self { name, folder, port, address, near, stack, namespaces: None };
        if stack == Stack::Xdp {
            if !can_make_namespaces(name) {
                return None;
            }
            case.make_lab();
            let tried = case.command(0, true, &["true"]).output().unwrap();
            if !tried.status.success() {
                eprintln!("SKIPPED programs::{name}: {}", stderr(&tried).trim());
                return None;
            }
        }
        Some(case)
    }

    /// Two namespaces with a cable between them.
    fn make_lab(&mut self) {
        let call = |words: &[&str]| {
            let output = windhover(words).env("WINDHOVER_STATE", self.state()).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            output
        };
        call(&["lab", "up", self.lab()]);
        let listed = call(&["lab", "list", "--format", "json"]);
        let labs: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
        let lab = labs.as_array().unwrap().iter().find(|lab| lab["name"] == self.lab()).unwrap();
        let address = |host: usize| lab["hosts"][host]["ipv4"].as_str().unwrap().to_owned();
        (self.near, self.address) = (address(0), address(1));
        self.namespaces = Some(["a", "b"].map(|host| format!("wh-{}-{host}", self.lab())));
    }

    /// Name of its lab: short, because devices carry it.
    fn lab(&self) -> &'static str {
        "byprog"
    }

    pub(super) fn state(&self) -> PathBuf {
        self.folder.0.join("state")
    }

    /// A command, behind the library or not. `host`: 0 of clients, 1 of the server.
    pub(super) fn command(&self, host: usize, behind: bool, line: &[&str]) -> Command {
        let stack = if self.stack == Stack::Xdp { "xdp" } else { "spin" };
        let windhover = env!("CARGO_BIN_EXE_windhover");
        let run = [windhover, "bypass", "run", "--stack", stack, "--require", "--profile", "latency", "--"];
        let mut words = if behind { [&run, line].concat() } else { line.to_vec() };
        if let Some(namespaces) = &self.namespaces {
            words.splice(0..0, ["ip", "netns", "exec", &namespaces[host]]);
        }
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("WINDHOVER_STATE", self.state());
        command.current_dir(&self.folder.0).stdin(Stdio::null());
        command
    }

    /// A server that listens, and ends with the value.
    pub(super) fn serve(&self, behind: bool, line: &[&str], protocol: &str) -> Server {
        let mut command = self.command(1, behind, line);
        let server = Server(command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn().unwrap());
        let port = format!(":{:04X} ", self.port.parse::<u16>().unwrap());
        let listens = |line: &str| line.contains(&port) && (protocol == "udp" || line.contains(" 0A "));
        // Behind xdp the kernel's socket may hold the port only.
        let on_stack = || {
            let pages = if behind && self.stack == Stack::Xdp { stat(&self.folder) } else { Vec::new() };
            pages.iter().any(|page| {
                page["sockets"].as_array().is_some_and(|sockets| {
                    sockets.iter().any(|one| one["protocol"] == protocol && one["backend"] == "xdp")
                })
            })
        };
        let table = || {
            let tables = ["", "6"].map(|family| format!("/proc/net/{protocol}{family}"));
            stdout(&self.command(1, false, &["cat", &tables[0], &tables[1]]).output().unwrap())
        };
        let end = Instant::now() + Duration::from_secs(60);
        while !table().lines().any(listens) && !on_stack() {
            assert!(Instant::now() < end, "{line:?} does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        if self.stack == Stack::Xdp {
            // From the socket to the listening there is a moment that nothing shows.
            std::thread::sleep(Duration::from_millis(200));
        }
        server
    }

    /// Runs a client to its end.
    #[track_caller]
    pub(super) fn client(&self, behind: bool, line: &[&str]) -> Output {
        let output = self.command(0, behind, &[&["timeout", LIMIT_S], line].concat()).output().unwrap();
        assert!(output.status.success(), "{line:?}: {output:?}");
        output
    }

    /// A row of the table that `cargo xtask test --bypass` prints.
    pub(super) fn row(&self, what: &str) {
        println!("\nBYPASS {}: {what}", self.name);
    }

    /// How many calls had to wait, in all processes behind the library.
    pub(super) fn waited(&self) -> u64 {
        stat(&self.folder).iter().map(all_waited).sum()
    }
}

/// How many calls of all kinds had to wait, in one process behind the library.
pub(super) fn all_waited(page: &serde_json::Value) -> u64 {
    page["calls"].as_object().unwrap().keys().map(|kind| waited(page, kind)).sum()
}

/// A server and its workers: a process group.
pub(super) struct Server(pub(super) Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["--", &format!("-{}", self.0.id())]).stderr(Stdio::null()).status();
        let end = Instant::now() + Duration::from_secs(60);
        while self.0.try_wait().is_ok_and(|ended| ended.is_none()) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether a program is there, by path or on PATH.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

pub(super) fn ends((server, client): (bool, bool)) -> String {
    let end = |behind| if behind { "bypass" } else { "kernel" };
    format!("server {}, client {}", end(server), end(client))
}

/// The number behind a word.
#[track_caller]
pub(super) fn number(text: &str, word: &str) -> f64 {
    let (_, rest) = text.split_once(word).unwrap_or_else(|| panic!("no '{word}' in: {text}"));
    let digits: String = rest.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    digits.trim_end_matches('.').parse().unwrap_or_else(|_| panic!("no number behind '{word}' in: {text}"))
}

/// Bytes that compress badly and repeat late.
pub(super) fn content() -> Vec<u8> {
    (0..1_000_000_u32).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

/// sockperf with one way to wait, over both protocols.
fn sockperf(name: &'static str, stack: Stack, wait: &str, kind: &str, pairings: &[(bool, bool)]) {
    let Some(case) = Case::new(name, stack, &["sockperf"]) else { return };
    for protocol in ["udp", "tcp"] {
        let feed =
            case.folder.file("feed", &format!("{}:{}:{}\n", &protocol[..1].to_uppercase(), case.address, case.port));
        let place = ["-i", &case.address, "-p", &case.port, "--tcp"];
        let how: &[&str] = match (wait, protocol) {
            ("r", "tcp") => &place,
            ("r", _) => &place[..4],
            _ => &["-f", &feed, "-F", wait],
        };
        for pairing in pairings {
            let server = case.serve(pairing.0, &[&["sockperf", "server"], how].concat(), protocol);
            let client = [&["sockperf", "ping-pong", "-t", "1", "-m", "32"], how].concat();
            let text = stdout(&case.client(pairing.1, &client));
            let received = number(&text, "ReceivedMessages=");
            assert!(received > 0.0, "{text}");
            for count in ["# dropped messages = ", "# duplicated messages = ", "# out-of-order messages = "] {
                assert_eq!(number(&text, count), 0.0, "{text}");
            }
            if pairing.0 {
                let page = stat(&case.folder).remove(0);
                assert!(waited(&page, kind) > 0, "{page}");
            }
            case.row(&format!("{protocol} {kind}, {}: {received} messages", ends(*pairing)));
            drop(server);
        }
    }
}

#[test]
fn sockperf_recv() {
    sockperf("sockperf_recv", Stack::Spin, "r", "recv", &[(true, true)]);
}

#[test]
#[ignore = "cargo xtask test --bypass"]
fn sockperf_recv_in_all_pairings() {
    sockperf("sockperf_recv_in_all_pairings", Stack::Spin, "r", "recv", &PAIRINGS);
}

#[test]
#[ignore = "cargo xtask test --bypass"]
fn sockperf_recv_in_all_pairings_on_xdp() {
    sockperf("sockperf_recv_in_all_pairings_on_xdp", Stack::Xdp, "r", "recv", &PAIRINGS);
}

#[test]
#[ignore = "cargo xtask test --bypass"]
fn sockperf_poll() {
    sockperf("sockperf_poll", Stack::Spin, "p", "poll", &PAIRINGS);
}

#[test]
#[ignore = "cargo xtask test --bypass"]
fn sockperf_poll_on_xdp() {
    sockperf("sockperf_poll_on_xdp", Stack::Xdp, "p", "poll", &PAIRINGS);
}

#[test]
#[ignore = "cargo xtask test --bypass"]
fn sockperf_select() {
    sockperf("sockperf_select", Stack::Spin, "s", "select", &PAIRINGS);
}

#[test]
#[ignore = "cargo xtask test --bypass"]
fn sockperf_select_on_xdp() {
    sockperf("sockperf_select_on_xdp", Stack::Xdp, "s", "select", &PAIRINGS);
}

#[test]
#[ignore = "cargo xtask test --bypass"]
fn sockperf_epoll() {
    sockperf("sockperf_epoll", Stack::Spin, "e", "epoll", &PAIRINGS);
}

#[test]
#[ignore = "cargo xtask test --bypass"]
fn sockperf_epoll_on_xdp() {
    sockperf("sockperf_epoll_on_xdp", Stack::Xdp, "e", "epoll", &PAIRINGS);
}

#[test]
#[ignore = "cargo xtask test --bypass"]
fn iperf3() {
    iperf3_behind(Case::new("iperf3", Stack::Spin, &["iperf3"]));
}

#[test]
#[ignore = "cargo xtask test --bypass"]
fn iperf3_on_xdp() {
    iperf3_behind(Case::new("iperf3_on_xdp", Stack::Xdp, &["iperf3"]));
}

fn iperf3_behind(case: Option<Case>) {
    let Some(case) = case else { return };
    for pairing in PAIRINGS {
        let server = case.serve(pairing.0, &["iperf3", "-s", "-4", "-p", &case.port], "tcp");
        for (what, more) in [("tcp", &[][..]), ("tcp back", &["-R"]), ("udp", &["-u", "-b", "50M"])] {
            let client = ["iperf3", "-c", &case.address, "-p", &case.port, "-t", "1", "-J"];
            let output = case.client(pairing.1, &[&client, more].concat());
            let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            let sum = if what == "udp" { "sum" } else { "sum_received" };
            let bits = result["end"][sum]["bits_per_second"].as_f64().unwrap();
            assert!(bits > 1e6, "{result}");
            case.row(&format!("{what}, {}: {:.2} Gbit/s", ends(pairing), bits / 1e9));
        }
        drop(server);
    }
}

#[test]
#[ignore = "cargo xtask test --bypass"]
fn redis() {
    redis_behind(Case::new("redis", Stack::Spin, &["redis-server", "redis-cli", "redis-benchmark"]));
}

#[test]
#[ignore = "cargo xtask test --bypass"]
fn redis_on_xdp() {
    redis_behind(Case::new("redis_on_xdp", Stack::Xdp, &["redis-server", "redis-cli", "redis-benchmark"]));
}

fn redis_behind(case: Option<Case>) {
    let Some(case) = case else { return };
    let server = [
        "redis-server",
        "--port",
        &case.port,
        "--bind",
        &case.address,
        "--save",
        "",
        "--appendonly",
        "no",
        "--protected-mode",
        "no",
    ];
    for pairing in PAIRINGS {
        let server = case.serve(pairing.0, &server, "tcp");
        let cli = |line: &[&str]| {
            stdout(&case.client(pairing.1, &[&["redis-cli", "-h", &case.address, "-p", &case.port], line].concat()))
        };
        assert_eq!(cli(&["set", "key", "value"]), "OK\n");
        assert_eq!(cli(&["get", "key"]), "value\n");
        assert_eq!(cli(&["--raw", "eval", "return {1,2}", "0"]), "1\n2\n");
        for depth in ["1", "16"] {
            let benchmark = [
                "redis-benchmark",
                "-h",
                &case.address,
                "-p",
                &case.port,
                "-c",
                "50",
                "-n",
                "20000",
                "-t",
                "get",
                "--csv",
                "-P",
                depth,
            ];
            let text = stdout(&case.client(pairing.1, &benchmark));
            let line = text.lines().find(|line| line.starts_with("\"GET\"")).unwrap_or_else(|| panic!("{text}"));
            let rate: f64 = line.split(',').nth(1).unwrap().trim_matches('"').parse().unwrap();
            assert!(rate > 100.0, "{text}");
            case.row(&format!("GET, 50 connections, {depth} at once, {}: {rate:.0} requests/s", ends(pairing)));
        }
        assert_eq!(pairing.0, case.waited() > 0, "{}", ends(pairing));
        drop(server);
    }
}

#[test]
#[ignore = "cargo xtask test --bypass"]
fn nginx_with_curl_and_ab() {
    nginx_with_curl_and_ab_behind(Case::new("nginx_with_curl_and_ab", Stack::Spin, &["nginx", "curl", "ab"]));
}

#[test]
#[ignore = "cargo xtask test --bypass"]
fn nginx_with_curl_and_ab_on_xdp() {
    nginx_with_curl_and_ab_behind(Case::new("nginx_with_curl_and_ab_on_xdp", Stack::Xdp, &["nginx", "curl", "ab"]));
}

/// Its configuration: two workers, and the files of the case's folder.
pub(super) fn nginx(case: &Case) -> String {
    let root = case.folder.path();
    let text = format!(
        "daemon off; worker_processes 2; user root; pid {root}/pid; error_log {root}/errors;\n\
         events {{ worker_connections 256; }}\n\
         http {{ access_log off; sendfile on; keepalive_timeout 65;\n\
         server {{ listen {}:{}; root {root}; }} }}\n",
        case.address, case.port
    );
    case.folder.file("nginx.conf", &text)
}

fn nginx_with_curl_and_ab_behind(case: Option<Case>) {
    let Some(case) = case else { return };
    let (root, configuration) = (case.folder.path(), nginx(&case));
    let content = content();
    std::fs::write(case.folder.0.join("content"), &content).unwrap();
    let url = |name: &str| format!("http://{}:{}/{name}", case.address, case.port);
    for pairing in PAIRINGS {
        let server = case.serve(pairing.0, &["nginx", "-p", root, "-c", &configuration], "tcp");
        let output = case.client(pairing.1, &["curl", "-s", "-S", &url("content")]);
        assert!(output.stdout == content, "{} bytes", output.stdout.len());
        let missing = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", &url("no")];
        assert_eq!(stdout(&case.client(pairing.1, &missing)), "404");
        let ab = ["ab", "-q", "-k", "-c", "20", "-n", "3000", &url("nginx.conf")];
        let text = stdout(&case.client(pairing.1, &ab));
        assert_eq!((number(&text, "Complete requests:"), number(&text, "Failed requests:")), (3000.0, 0.0), "{text}");
        if pairing.0 {
            // The one that listens, and two workers.
            assert_eq!(stat(&case.folder).len(), 3);
            assert!(case.waited() > 0);
        }
        case.row(&format!("2 workers, {}: {} requests/s", ends(pairing), number(&text, "Requests per second:")));
        drop(server);
    }
}

#[test]
#[ignore = "cargo xtask test --bypass"]
fn netcat_and_socat() {
    netcat_and_socat_behind(Case::new("netcat_and_socat", Stack::Spin, &["nc", "socat"]));
}

#[test]
#[ignore = "cargo xtask test --bypass"]
fn netcat_and_socat_on_xdp() {
    netcat_and_socat_behind(Case::new("netcat_and_socat_on_xdp", Stack::Xdp, &["nc", "socat"]));
}

fn netcat_and_socat_behind(case: Option<Case>) {
    let Some(case) = case else { return };
    let content = content();
    std::fs::write(case.folder.0.join("content"), &content).unwrap();
    let listen = format!("TCP-LISTEN:{},bind={},reuseaddr", case.port, case.address);
    let connect = format!("TCP:{}:{}", case.address, case.port);
    let (nc_in, nc_out) = ("exec nc -l $1 $0 > got", "exec nc -N $1 $0 < content");
    let socat: &[&str] = &["socat", "-u", &listen, "CREATE:got"];
    // netcat's listener sets SO_REUSEPORT: the kernel keeps such a port.
    let netcat: &[&str] = &["sh", "-c", nc_in, &case.port, &case.address];
    let tools: [(&str, &[&str], &[&str]); 2] = [
        (
            "netcat",
            if case.stack == Stack::Xdp { socat } else { netcat },
            &["sh", "-c", nc_out, &case.port, &case.address],
        ),
        ("socat", socat, &["socat", "-u", "OPEN:content", &connect]),
    ];
    for (tool, server, client) in tools {
        for pairing in PAIRINGS {
            let mut receiving = case.serve(pairing.0, server, "tcp");
            case.client(pairing.1, client);
            assert!(receiving.0.wait().unwrap().success());
            assert!(std::fs::read(case.folder.0.join("got")).unwrap() == content, "{tool}, {}", ends(pairing));
            case.row(&format!("{tool}, {}: {} bytes", ends(pairing), content.len()));
        }
    }
}

#[test]
#[ignore = "cargo xtask test --bypass"]
fn a_shell_of_many_programs() {
    let Some(case) = Case::new("a_shell_of_many_programs", Stack::Spin, &[]) else { return };
    let script = "for i in $(seq 300); do echo $i | cat | wc -c > /dev/null; done; echo end; cat";
    let (started, said) = Started::new(&mut case.command(0, true, &["sh", "-c", script]), "end");
    assert_eq!(said, "end\n");
    assert!(stat(&case.folder).is_empty(), "programs without sockets have no page");
    assert_eq!(started.end(), Some(0));
    case.row("900 programs without sockets: no page was made");
}
