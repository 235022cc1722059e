//! `cargo xtask test --windows`: winpoint, built for Windows and run under Wine, against windhover, both ways.
//!
//! Debian's packages bring all that rustup does not: a compiler whose standard library comes as source, MinGW-w64 and Wine. They are
//! fetched into the cache and not installed. Function only: under Wine, times are not those of Windows.

use crate::portable::{PACKAGE, TARGET};
use crate::process::Killed;
use crate::tests::Counts;
use crate::{files, process};
use anyhow::{Context as _, Result, bail};
use guest::{Cache, PackageSet};
use nix::sched::{CloneFlags, unshare};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const TOOLS: PackageSet<'static> = PackageSet {
    what: "the tool chain for Windows",
    name: "windows",
    packages: &["rustc-web", "rust-web-src", "gcc-mingw-w64-x86-64-win32", "wine64", "libunwind8", "libz-mingw-w64"],
    follow: &["libstd-rust-web", "libllvm", "libwine", "binutils-mingw-w64-x86-64", "mingw-w64", "gcc-mingw-w64"],
    size: "300 MB",
    space: 3_000_000_000,
    otherwise: "or leave the tests for Windows out",
};

/// What Wine 8 lacks and the standard library imports, by what it does have.
const RANDOM: &str = "#include <windows.h>\n#include <ntsecapi.h>\n\
    __declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T bytes) { return RtlGenRandom(data, (ULONG)bytes); }\n";
/// How long one program may take: the first start of Wine makes its folder.
const LIMIT: Duration = Duration::from_secs(300);
/// How long the output of a program that ended is still read: a service of Wine that inherited it keeps it open.
const REST: Duration = Duration::from_secs(5);

/// What is tried, in words, and how.
type Case = (&'static str, fn(&Lab) -> Result<()>);

/// All cases. Each is counted, and what is wrong is printed.
const CASES: [Case; 7] = [
    ("the doctor reads the registry and changes nothing", doctor),
    ("windhover measures against the reflector on Windows", to_windows),
    ("a key is needed at both ends", keys),
    ("Windows measures against windhover, and report reads it", from_windows),
    ("receive calls end through completion ports, at both ends", completion),
    ("PGM goes between Windows and Linux, both ways", pgm),
    ("figures under Wine are never put beside others", apart),
];

pub(crate) fn run() -> Result<Counts> {
    if !process::is_root() {
        bail!("a network namespace needs root: run 'cargo xtask test --windows' as root");
    }
    let tools = TOOLS.fetch(&Cache::usual()?, &mut |text| println!("{text}"))?;
    let lab = Lab::build(&tools)?;
    // After the builds, which may fetch crates. Children inherit it, and it ends with this process.
    unshare(CloneFlags::CLONE_NEWNET).context("a network namespace")?;
    process::run("ip", &["link", "set", "lo", "up"])?;
    let mut counts = Counts::default();
    for (name, case) in CASES {
        match case(&lab) {
            Ok(()) => {
                println!("test {name} ... ok");
                counts.passed += 1;
            }
            Err(error) => {
                println!("test {name} ... FAILED\n  {error:#}");
                counts.failed += 1;
            }
        }
    }
    Ok(counts)
}

struct Lab {
    tools: PathBuf,
    folder: PathBuf,
    windows: PathBuf,
    linux: PathBuf,
    windhover: PathBuf,
}

impl Lab {
    fn build(tools: &Path) -> Result<Self> {
        let target = process::target();
        let folder = target.join("windows");
        files::create(&folder)?;
        let bin = tools.join("usr/bin");
        // gcc and Wine have other names, or lie elsewhere, when their packages are installed.
        let ours = folder.join("bin");
        files::fresh(&ours)?;
        for (name, program) in [("gcc", "gcc-win32"), ("dlltool", "dlltool"), ("ar", "ar"), ("as", "as"), ("ld", "ld")]
        {
            let prefix = "x86_64-w64-mingw32-";
            link(&bin.join(format!("{prefix}{program}")), &ours.join(format!("{prefix}{name}")))?;
        }
        let wine = tools.join("usr/lib/wine");
        link(&wine.join("wineserver64"), &wine.join("wineserver"))?;
        let libraries = tools.join("usr/lib/x86_64-linux-gnu");
        let gcc = ours.join("x86_64-w64-mingw32-gcc");
        let path = std::env::var("PATH").unwrap_or_default();
        let arguments = ["build", "--locked", "--package", PACKAGE, "--bin", "winpoint", "--target", TARGET];
        let mut build = process::command(&process::cargo(), &arguments);
        build
            .arg("-Zbuild-std=std,panic_abort")
            .env("RUSTC", bin.join("rustc"))
            // The compiler is a release; what it must not do without this is build its own library.
            .env("RUSTC_BOOTSTRAP", "1")
            .env_remove("RUSTUP_TOOLCHAIN")
            // What is said there is for this machine's linker.
            .env_remove("RUSTFLAGS")
            .env("LD_LIBRARY_PATH", &libraries)
            .env("PATH", format!("{}:{path}", ours.display()))
            .env("CARGO_TARGET_DIR", &folder)
            .env("CARGO_PROFILE_DEV_PANIC", "abort")
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_INCREMENTAL", "0");
        process::finish(&mut build).context("building winpoint for Windows")?;
        let windows = folder.join(TARGET).join("debug/winpoint.exe");
        let source = folder.join("random.c");
        files::write(&source, RANDOM)?;
        let library = windows.with_file_name("bcryptprimitives.dll");
        let mut compile = Command::new(&gcc);
        compile.args(["-shared", "-o"]).args([&library, &source]).arg("-ladvapi32").env("LD_LIBRARY_PATH", &libraries);
        process::finish(&mut compile).context("building what Wine lacks")?;
        process::run(&process::cargo(), &["build", "--locked", "--package", "windhover", "--package", PACKAGE])?;
        let own = |name: &str| target.join("debug").join(name);
        files::fresh(&folder.join("results"))?;
        Ok(Self { tools: tools.to_owned(), windows, linux: own("winpoint"), windhover: own("windhover"), folder })
    }

    fn winpoint(&self, line: &str) -> Command {
        let mut command = self.wine("wine64");
        command.arg(&self.windows).args(line.split(' '));
        command
    }

    fn wine(&self, program: &str) -> Command {
        let mut command = Command::new(self.tools.join("usr/lib/wine").join(program));
        // Its user32 needs zlib1.dll, which is another package's.
        let zlib = self.tools.join("usr/x86_64-w64-mingw32/lib").display().to_string();
        command
            .current_dir(&self.folder)
            .env("WINEPATH", format!("Z:{}", zlib.replace('/', "\\")))
            .env("LD_LIBRARY_PATH", self.tools.join("usr/lib/x86_64-linux-gnu"))
            .env("WINEPREFIX", self.folder.join("prefix"))
            .env("WINEDEBUG", "-all")
            // Neither .NET nor a browser nor menus are made for a test.
            .env("WINEDLLOVERRIDES", "mscoree,mshtml,winemenubuilder.exe=;bcryptprimitives=n")
            .env_remove("DISPLAY");
        command
    }

    fn windhover(&self, line: &str) -> Command {
        let mut command = Command::new(&self.windhover);
        command.args(line.split(' '));
        command
    }

    fn results(&self) -> PathBuf {
        self.folder.join("results")
    }

    /// Makes a key for both ends; winpoint finds it by its name in the folder that it runs in.
    fn key(&self) -> Result<PathBuf> {
        let text = printed(&mut self.windhover("key"))?;
        files::put(&self.folder, "key", text.as_bytes(), 0o600)?;
        Ok(self.folder.join("key"))
    }
}

impl Drop for Lab {
    /// Ends the services of this folder's Wine, however the tests ended.
    fn drop(&mut self) {
        // It ends with 2 where none runs.
        let _ = finished(self.wine("wineserver64").arg("-k"));
    }
}

fn link(to: &Path, at: &Path) -> Result<()> {
    if at.symlink_metadata().is_ok() {
        std::fs::remove_file(at).with_context(|| at.display().to_string())?;
    }
    std::os::unix::fs::symlink(to, at).with_context(|| at.display().to_string())
}

fn finished(command: &mut Command) -> Result<Output> {
    let shown = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| shown.clone())?;
    // Its outputs are read while it runs, or it would wait for its reader.
    let out = chunks(child.stdout.take().context("no standard output")?);
    let err = chunks(child.stderr.take().context("no standard error")?);
    let status = process::wait(&mut child, LIMIT)?.with_context(|| format!("{shown} did not end"))?;
    Ok(Output { status, stdout: collected(&out), stderr: collected(&err) })
}

/// Reads until the end, which may never come: its thread is not waited for.
fn chunks(mut from: impl std::io::Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (give, taken) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 65536];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            if give.send(buffer[..length].to_vec()).is_err() {
                break;
            }
        }
    });
    taken
}

/// What a program wrote that has ended: all of it lies in the pipe by then.
fn collected(chunks: &mpsc::Receiver<Vec<u8>>) -> Vec<u8> {
    let (until, mut bytes) = (Instant::now() + REST, Vec::new());
    while let Some(left) = until.checked_duration_since(Instant::now())
        && let Ok(chunk) = chunks.recv_timeout(left)
    {
        bytes.extend(chunk);
    }
    bytes
}

/// What a program printed that must succeed. 4 (invalid figures, as on a busy machine) passes where its documents say why.
fn printed(command: &mut Command) -> Result<String> {
    let output = finished(command)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let invalid = invalid(&text)?;
    if output.status.code() != Some(if invalid.is_empty() { 0 } else { 4 }) {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?} ended with {} (invalid: {invalid:?}): {said}", output.status);
    }
    for finding in invalid {
        println!("  ends with 4, as it must: {finding}");
    }
    Ok(text)
}

fn documents(text: &str) -> Result<Vec<Value>> {
    let lines = text.lines().filter(|line| line.starts_with('{'));
    Ok(lines.map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// What makes figures invalid, of all documents.
fn invalid(text: &str) -> Result<Vec<String>> {
    let documents = documents(text)?;
    let findings = documents.iter().filter_map(|document| document["verdict"]["invalid"].as_array()).flatten();
    Ok(findings.map(Value::to_string).collect())
}

/// What a program said that must be refused.
fn refusal(command: &mut Command) -> Result<String> {
    let output = finished(command)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        bail!("{command:?} was not refused: {said}");
    }
    Ok(said)
}

/// A program that serves until this is dropped.
fn serving(command: &mut Command) -> Result<Killed> {
    let shown = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| shown.clone())?;
    let lines = BufReader::new(child.stderr.take().context("no standard error")?);
    let served = Killed(child);
    let (say, heard) = mpsc::channel();
    std::thread::spawn(move || {
        for line in lines.split(b'\n').map_while(Result::ok) {
            let _ = say.send(String::from_utf8_lossy(&line).into_owned());
        }
    });
    let mut said = String::new();
    while !said.contains("serving on") {
        said = heard.recv_timeout(LIMIT).with_context(|| format!("{shown} does not serve: {said}"))?;
    }
    Ok(served)
}

fn require(holds: bool, what: &str, seen: &str) -> Result<()> {
    if holds { Ok(()) } else { bail!("{what}: {seen}") }
}

/// Result documents: all answered, and as many as asked for.
fn all_answered(text: &str, sent: u64) -> Result<Vec<Value>> {
    let documents = documents(text)?;
    require(!documents.is_empty(), "no result", text)?;
    for document in &documents {
        let messages = &document["messages"];
        require(messages["sent"] == sent && messages["lost"] == 0, "messages are missing", &messages.to_string())?;
    }
    Ok(documents)
}

/// A path of the registry that Windows does not have would be no value, and so would be a call that fails.
fn doctor(lab: &Lab) -> Result<()> {
    let text = printed(&mut lab.winpoint("doctor"))?;
    for part in ["Wine 8", "NetworkThrottlingIndex:", "FastSendDatagramThreshold:", "power plan:", "microsoft.com"] {
        require(text.contains(part), part, &text)?;
    }
    let key = r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion\Multimedia\SystemProfile";
    let add = ["reg", "add", key, "/v", "NetworkThrottlingIndex", "/t", "REG_DWORD", "/d", "0xffffffff", "/f"];
    printed(lab.wine("wine64").args(add))?;
    let text = printed(&mut lab.winpoint("doctor"))?;
    require(text.contains("NetworkThrottlingIndex: 0xffffffff"), "the value set is not read", &text)
}

/// A field of the session, a clock or a socket option that Windows has otherwise.
fn to_windows(lab: &Lab) -> Result<()> {
    let _served = serving(&mut lab.winpoint("serve --priority high --cpu 0"))?;
    for protocol in ["udp", "tcp"] {
        let measures = [
            (format!("pingpong {protocol} 127.0.0.1 --size 1,32,1400 --count 500"), 500),
            (format!("pingpong {protocol} 127.0.0.1 --receive spin --remote-receive spin --count 500"), 500),
            (format!("rr {protocol} 127.0.0.1 --count 500"), 500),
            (format!("pace {protocol} 127.0.0.1 --rate 500 --count 200"), 200),
        ];
        for (line, sent) in measures {
            let text = printed(&mut lab.windhover(&format!("{line} --format json")))?;
            for document in all_answered(&text, sent).context(line)? {
                let verdict = document["verdict"].to_string();
                let named = verdict.contains("Wine 8") && verdict.contains("QueryPerformanceCounter");
                require(named, "the reflector does not say what it is", &verdict)?;
            }
        }
    }
    let said = refusal(&mut lab.windhover("pingpong udp 127.0.0.1 --remote-policy fifo:1"))?;
    require(said.contains("policy"), "a Linux policy is not refused by name", &said)
}

/// A handshake whose random bytes or proofs differ between the systems.
fn keys(lab: &Lab) -> Result<()> {
    let key = lab.key()?;
    {
        let _served = serving(&mut lab.winpoint("serve --bind 127.0.0.1:7415 --key-file key"))?;
        let to = "pingpong udp 127.0.0.1:7415 --count 100";
        let text = printed(lab.windhover(&format!("{to} --format json --key-file")).arg(&key))?;
        all_answered(&text, 100)?;
        refusal(&mut lab.windhover(to))?;
    }
    let _served = serving(lab.windhover("serve --bind 127.0.0.1:7416 --key-file").arg(&key))?;
    let to = "pingpong udp 127.0.0.1:7416 --count 100 --json";
    all_answered(&printed(&mut lab.winpoint(&format!("{to} --key-file key")))?, 100)?;
    refusal(&mut lab.winpoint(to)).map(|_| ())
}

/// A run directory that is not written on Windows as it is on Linux.
fn from_windows(lab: &Lab) -> Result<()> {
    let _served = serving(&mut lab.windhover("serve --bind 127.0.0.1:7413"))?;
    let to = "127.0.0.1:7413";
    for protocol in ["udp", "tcp"] {
        for (line, sent) in [
            (format!("pingpong {protocol} {to} --size 1,32,1400 --count 2000 --seconds 60 --json"), 2000),
            (format!("pingpong {protocol} {to} --receive spin --count 2000 --seconds 60 --json"), 2000),
            (format!("pace {protocol} {to} --rate 500 --count 300 --json"), 300),
        ] {
            all_answered(&printed(&mut lab.winpoint(&line))?, sent)?;
        }
    }
    let line = format!("pingpong udp {to} --size 32,64 --count 2000 --priority high --cpu 0 --json");
    let name = kept(&printed(&mut lab.winpoint(&format!("{line} --output results --name wine")))?);
    let path = lab.results().join(name);
    let run: Value = serde_json::from_str(&files::read(&path.join("run.json"))?)?;
    require(run["substrate"] == "wine", "substrate", &run["substrate"].to_string())?;
    require(run["labels"]["os"].to_string().contains("Wine 8"), "os", &run["labels"].to_string())?;
    let shown = printed(lab.windhover("show").arg(&path))?;
    require(shown.contains("foreign worker winpoint"), "the source is not named", &shown)?;
    let report = printed(lab.windhover("report --format markdown").arg(&path))?;
    require(report.contains("under Wine"), "the report does not name Wine", &report)
}

/// The run directory that winpoint printed last, by its name.
fn kept(text: &str) -> String {
    text.trim_end().rsplit(['\\', '/']).next().unwrap_or_default().to_owned()
}

/// Calls that end twice or never, bytes of a stream that are lost between two calls, a port that is joined twice.
fn completion(lab: &Lab) -> Result<()> {
    {
        let _served = serving(&mut lab.windhover("serve --bind 127.0.0.1:7417"))?;
        let measure = |probe: &str, options: &str, sent| {
            let line = format!("{probe} 127.0.0.1:7417 --json --seconds 60 {options}");
            all_answered(&printed(&mut lab.winpoint(&line))?, sent)
        };
        for protocol in ["udp", "tcp"] {
            measure(&format!("pingpong {protocol}"), "--receive iocp --size 1,32,1400 --count 2000", 2000)?;
            for receive in ["block", "iocp"] {
                let line = format!("--receive {receive} --rate 400,500 --count 300 --beyond-saturation");
                measure(&format!("pace {protocol}"), &line, 300)?;
            }
        }
        measure("pingpong tcp", "--receive iocp --size 200000 --count 100", 100)?;
    }
    let _served = serving(&mut lab.winpoint("serve --bind 127.0.0.1:7418"))?;
    for protocol in ["udp", "tcp"] {
        for (probe, options, sent) in
            [("pingpong", "--size 1,32,1400 --count 500", 500), ("pace", "--rate 500 --count 200", 200)]
        {
            let line = format!("{probe} {protocol} 127.0.0.1:7418 --format json --remote-receive iocp {options}");
            all_answered(&printed(&mut lab.windhover(&line))?, sent)?;
        }
    }
    Ok(())
}

/// The other host: a network namespace behind a veth pair, that ends with this. The near end has 198.18.7.1, it has
/// 198.18.7.2.
struct OtherHost(Killed);

impl OtherHost {
    fn start() -> Result<Self> {
        let child = Command::new("unshare").args(["--net", "sleep", "600"]).spawn().context("unshare")?;
        let host = Self(Killed(child));
        let pid = host.0.0.id().to_string();
        // The pair goes nowhere while the process has its parent's namespace.
        let (own, other) = (Path::new("/proc/self/ns/net"), PathBuf::from(format!("/proc/{pid}/ns/net")));
        let until = Instant::now() + LIMIT;
        while std::fs::read_link(own)? == std::fs::read_link(&other)? {
            require(Instant::now() < until, "no second network namespace", &pid)?;
            std::thread::sleep(Duration::from_millis(10));
        }
        process::run("ip", &["link", "add", "w0", "type", "veth", "peer", "name", "w1", "netns", &pid])?;
        process::run("ip", &["addr", "add", "198.18.7.1/24", "dev", "w0"])?;
        process::run("ip", &["link", "set", "w0", "up"])?;
        for line in ["addr add 198.18.7.2/24 dev w1", "link set w1 up", "link set lo up"] {
            let words: Vec<&str> = line.split(' ').collect();
            process::finish(host.inside(&mut Command::new("ip")).args(words))?;
        }
        Ok(host)
    }

    fn inside(&self, command: &mut Command) -> Command {
        let mut inside = Command::new("nsenter");
        inside
            .arg(format!("--net=/proc/{}/ns/net", self.0.0.id()))
            .arg("--")
            .arg(command.get_program())
            .args(command.get_args());
        inside
    }
}

/// Groups that Windows joins otherwise than Linux, NAKs that its one socket does not get, a rate that it does not keep.
fn pgm(lab: &Lab) -> Result<()> {
    let host = OtherHost::start()?;
    let key = lab.key()?;
    let options = "--size 64,4000 --rate 500 --count 300 --timeout 3000";
    {
        let mut serve = lab.windhover("serve --bind 198.18.7.2:7419 --key-file");
        let _served = serving(&mut host.inside(serve.arg(&key)))?;
        for receive in ["spin", "block", "iocp"] {
            let to = "pace pgm 239.192.0.1 198.18.7.2:7419 --key-file key --json";
            let text = printed(&mut lab.winpoint(&format!("{to} --receive {receive} {options}")))?;
            for document in all_answered(&text, 300)? {
                let pgm = &document["pgm"];
                require(pgm["ends"][1]["counts"]["messages"] == 300, "the far end's", &pgm.to_string())?;
            }
        }
    }
    let _served = serving(&mut lab.winpoint("serve --bind 198.18.7.1:7420 --key-file key"))?;
    for receive in ["spin", "block", "iocp"] {
        let to = "pace pgm 239.192.0.1 198.18.7.1:7420 --format json";
        let mut measure = lab.windhover(&format!("{to} --remote-receive {receive} {options} --key-file"));
        all_answered(&printed(&mut host.inside(measure.arg(&key)))?, 300)?;
    }
    Ok(())
}

/// A comparison of Wine with anything else that was not asked for by name.
fn apart(lab: &Lab) -> Result<()> {
    let _served = serving(&mut lab.windhover("serve --bind 127.0.0.1:7414"))?;
    let line = "pingpong udp 127.0.0.1:7414 --size 32 --count 1000 --json --output";
    let mut here = Command::new(&lab.linux);
    here.args(line.split(' ')).arg(lab.results()).args(["--name", "linux", "--substrate", "loopback"]);
    let here = printed(&mut here)?.trim_end().lines().next_back().unwrap_or_default().to_owned();
    let name = kept(&printed(&mut lab.winpoint(&format!("{line} results --name again")))?);
    let said = refusal(lab.windhover("compare").arg(here).arg(lab.results().join(name)))?;
    require(said.contains("wine") && said.contains("loopback"), "the refusal does not name both", &said)?;
    let said = refusal(&mut lab.winpoint(&format!("{line} results --substrate metal")))?;
    require(said.contains("Wine"), "Wine passes for metal", &said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn an_output_that_a_service_keeps_open_is_not_waited_for() {
        // Tests that never end because a service of Wine inherited their standard output.
        let output = finished(&mut shell("sleep 600 & echo $!; echo said >&2")).unwrap();
        let pid = String::from_utf8(output.stdout).unwrap();
        let ended = Command::new("kill").arg(pid.trim()).status().unwrap();
        assert!(ended.success(), "the service ended first: {pid}");
        assert_eq!(output.stderr, b"said\n");
    }

    #[test]
    fn a_code_is_taken_only_where_the_documents_say_why() {
        // A crash, or a code that hides invalid figures, that passes for a busy machine.
        let late = r#"{"verdict":{"invalid":[{"id":"generator-late"}]}}"#;
        let good = r#"{"verdict":{"invalid":[]}}"#;
        let cases = [
            (late, 4, true),
            (good, 0, true),
            ("", 0, true),
            (late, 0, false),
            (good, 4, false),
            ("", 4, false),
            (late, 1, false),
        ];
        for (document, code, is_taken) in cases {
            let taken = printed(&mut shell(&format!("echo '{document}'; exit {code}")));
            assert_eq!(taken.is_ok(), is_taken, "{document} {code}: {taken:?}");
        }
    }
}
