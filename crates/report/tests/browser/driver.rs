//! Starts the browser on a page and reads what it saw.

use super::*;

/// What every script begins with.
pub(crate) const TOOLS: &str = r#"
const saw = {};
const room = document.getElementById("heat-viewer");
const stage = () => room.querySelector(".hm-stage");
const wait = (ready, what) => new Promise((done, fail) => {
  let left = 400;
  const look = () => { if (ready()) done(); else if (--left < 0) fail(new Error("never: " + what)); else setTimeout(look, 20); };
  look();
});
// Until the page has drawn all that was asked for.
const settled = async () => {
  let last;
  do {
    last = room.dataset.drawn;
    await new Promise((done) => setTimeout(done, 150));
    await wait(() => room.dataset.drawn, "drawn");
  } while (room.dataset.drawn !== last);
};
// A place of the plot, in shares from its left and its top.
const plot = () => stage().querySelector("canvas").getBoundingClientRect();
const at = (x, y) => { const box = plot(); return { clientX: box.left + x * box.width, clientY: box.top + y * box.height }; };
const send = (type, place, more = {}) => {
  const kind = type === "wheel" ? WheelEvent : type === "dblclick" ? MouseEvent : PointerEvent;
  stage().dispatchEvent(new kind(type, { bubbles: true, cancelable: true, button: 0, ...place, ...more }));
};
const key = (name, more = {}) => stage().dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true, ...more }));
const press = async (word) => {
  const button = [...room.querySelectorAll("button")].find((one) => one.textContent === word);
  if (!button) throw new Error("no button " + word);
  button.click();
  await settled();
};
const words = () => new URLSearchParams(location.hash.slice(1));
const pair = (name) => words().get(name)?.split(",").map(Number) ?? null;
const colours = (canvas = stage().querySelector("canvas")) => {
  // A copy: a canvas that is read often is complained of.
  const copy = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height });
  const paper = copy.getContext("2d", { willReadFrequently: true });
  paper.drawImage(canvas, 0, 0);
  const { data } = paper.getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Map();
  for (let i = 0; i < data.length; i += 4) { const word = data.slice(i, i + 4).join(); seen.set(word, (seen.get(word) || 0) + 1); }
  return seen;
};
const tip = () => { const note = room.querySelector(".hm-tip"); return note.hidden ? null : note.textContent; };
"#;

pub(crate) fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/browser");
    std::fs::create_dir_all(&folder).unwrap();
    folder.canonicalize().unwrap()
}

pub(crate) fn chromium() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&paths).flat_map(|folder| names.map(|name| folder.join(name))).find(|file| file.is_file())
}

/// Says that a test cannot run.
pub(crate) fn skipped(test: &str) {
    eprintln!("SKIPPED {test}: no chromium: install the Debian package chromium");
}

/// Longest that one page may take; `timeout` ends the browser then.
pub(crate) const LIMIT_S: u32 = 60;
/// What `timeout` ends with when the time was up.
pub(crate) const TIME_WAS_UP: i32 = 124;

/// Starts the browser on a page and returns what it printed: the page as it has become, and the console's lines. A
/// browser that hangs is ended and started once more: it is the page that is tested.
pub(crate) fn browse(browser: &Path, url: &str, flags: &[&str]) -> (String, Vec<String>) {
    // One at a time: several of them starve each other on a machine with two CPUs.
    static ONE: Mutex<()> = Mutex::new(());
    let _alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let seen = start(browser, url, flags).or_else(|| {
        eprintln!("RETRIED {}: it did not end within {LIMIT_S} s on {url}", browser.display());
        start(browser, url, flags)
    });
    let (page, log) = seen.unwrap_or_else(|| panic!("{} never ends on {url}", browser.display()));
    let console = log.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
    (page, console)
}

/// One run of the browser: its output and its log, or nothing when it had to be ended.
pub(crate) fn start(browser: &Path, url: &str, flags: &[&str]) -> Option<(String, String)> {
    let profile = tempfile::tempdir().unwrap();
    // Files and no pipes: a process of the browser's that outlives it would hold a pipe open, and its reader for ever.
    let (page, log) = (profile.path().join("page"), profile.path().join("log"));
    let status = Command::new("timeout")
        .args(["-k", "5", &LIMIT_S.to_string()])
        .arg(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--v=0"])
        .args(["--virtual-time-budget=60000", "--window-size=1400,1000"])
        .arg(format!("--user-data-dir={}", profile.path().join("profile").display()))
        .args(flags)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(File::create(&page).unwrap())
        .stderr(File::create(&log).unwrap())
        .status()
        .unwrap();
    end_those_with(profile.path());
    let read = |file: &Path| String::from_utf8_lossy(&std::fs::read(file).unwrap()).into_owned();
    // By a signal, when `timeout` had to be ended with the rest.
    if matches!(status.code(), Some(TIME_WAS_UP) | None) {
        return None;
    }
    assert!(status.success(), "{browser:?} ended with {status}:\n{}", read(&log));
    Some((read(&page), read(&log)))
}

/// Ends what the browser left behind: the processes that have its profile, which is of this run alone, in their command.
pub(crate) fn end_those_with(profile: &Path) {
    let profile = profile.as_os_str().as_encoded_bytes();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        if command.windows(profile.len()).any(|part| part == profile)
            && let Some(pid) = process.file_name().to_str()
        {
            let _ = Command::new("sh").args(["-c", "kill -9 \"$0\"", pid]).stderr(Stdio::null()).status();
        }
    }
}

pub(crate) fn url(file: &Path, fragment: &str) -> String {
    format!("file://{}{fragment}", file.display())
}

/// Opens a copy of a page with a script of the test's own at its end, and returns what that saw.
pub(crate) fn ask(name: &str, html: &str, fragment: &str, script: &str) -> Option<Value> {
    let browser = chromium()?;
    let file = folder().join(format!("{name}.html"));
    let added = format!(
        "<pre id=\"saw\"></pre><script>{TOOLS}\n(async () => {{\n{script}\n}})().catch((error) => {{ saw.error = String(error.stack || error); }})\
         .then(() => {{ document.getElementById('saw').textContent = btoa(unescape(encodeURIComponent(JSON.stringify(saw)))); }});</script></body>"
    );
    std::fs::write(&file, html.replace("</body>", &added)).unwrap();
    let (page, console) = browse(&browser, &url(&file, fragment), &["--dump-dom"]);
    assert_eq!(console, Vec::<String>::new(), "{name}: the console must stay empty");
    let saw = page.split_once("<pre id=\"saw\">").and_then(|(_, rest)| rest.split_once("</pre>")).unwrap().0;
    let decoded = decode(saw);
    let saw: Value = serde_json::from_str(&decoded).unwrap_or_else(|error| panic!("{name}: {error}: {decoded:?}"));
    assert!(saw.get("error").is_none(), "{name}: {saw:#}");
    Some(saw)
}

/// base64 without a library: only of this test's own.
pub(crate) fn decode(text: &str) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut held, mut bytes) = (0_u32, 0, Vec::new());
    for letter in text.bytes().filter(|letter| *letter != b'=') {
        let value = LETTERS.iter().position(|other| *other == letter).expect("base64");
        bits = (bits << 6) | u32::try_from(value).unwrap();
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from((bits >> held) & 0xff).unwrap());
        }
    }
    String::from_utf8(bytes).unwrap()
}
