//! A network device with a real driver: two e1000e on one wire, the second one alone in the namespace `far`.

use super::state::{State, assert_restored, ethtool, read};
use super::support::{assert_code, stderr, stdout, windhover};
use super::tasks::{Reset, interrupts, shell, wait_for};
use std::fs;

const NEAR: &str = "198.18.0.1";
pub(crate) const FAR: &str = "198.18.0.2";

/// As wide as needed for lines that are looked at whole.
pub(crate) fn run(arguments: &[&str]) -> std::process::Output {
    windhover(arguments).env("COLUMNS", "300").output().unwrap()
}

/// Sets up both ends once; the tests of this boot share them.
pub(crate) fn wire() {
    if !fs::exists("/run/netns/far").unwrap() {
        let (code, said) = shell(&format!(
            "ip netns add far && ip link set eth1 netns far && ip address add {NEAR}/24 dev eth0 && ip link set eth0 up \
             && ip -n far address add {FAR}/24 dev eth1 && ip -n far link set eth1 up"
        ));
        assert_eq!(code, Some(0), "{said}");
    }
    wait_for("the link", || read("/sys/class/net/eth0/carrier") == "1" && ping(1));
}

/// Whether the far end answers that many echo requests.
pub(crate) fn ping(count: u32) -> bool {
    shell(&format!("busybox ping -q -W 2 -c {count} -i 0.1 {FAR}")).0 == Some(0)
}

/// A value in what `ethtool` prints: the last line that begins with this key.
pub(crate) fn value(option: &str, key: &str) -> String {
    let text = ethtool(&[option, "eth0"]);
    let value = text.lines().rev().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    value.unwrap_or("<none>").trim().to_owned()
}

/// Number of the interrupt that the driver calls by this name.
pub(crate) fn irq(action: &str) -> u32 {
    let irqs = super::state::numbered("/proc/irq");
    irqs.into_iter().find(|irq| read(format!("/sys/kernel/irq/{irq}/actions")) == action).unwrap()
}

/// Counts of the device's interrupts on a CPU, in the order of their numbers.
fn counts(cpu: usize) -> Vec<u64> {
    let mut irqs = super::state::numbered("/sys/class/net/eth0/device/msi_irqs");
    irqs.sort_unstable();
    irqs.iter().map(|irq| interrupts(&irq.to_string(), cpu)).collect()
}

/// What the other tests stand on: an interrupt of the receive queue goes where its mask says.
#[test]
#[ignore = "runs in a guest"]
fn the_driver_has_interrupts_that_can_be_placed() {
    wire();
    assert_eq!(value("-c", "rx-usecs"), "3");
    assert_eq!((value("-g", "RX"), value("-g", "TX")), ("256".to_owned(), "256".to_owned()));
    let irq = irq("eth0-rx-0");
    let mask = format!("/proc/irq/{irq}/smp_affinity_list");
    let before = read(&mask);
    fs::write(&mask, "2").unwrap();
    assert!(ping(3));
    let counted = interrupts(&irq.to_string(), 2);
    assert!(ping(5));
    let now = interrupts(&irq.to_string(), 2);
    fs::write(&mask, &before).unwrap();
    assert!(now > counted, "no interrupt came to CPU 2: {counted}, {now}");
}

/// Applies settings, looks, and undoes them; the device and everything else is then as before. A device that changes its
/// rings or coalescing may be without a link for a moment.
pub(crate) fn applied<T>(arguments: &[&str], look: impl FnOnce() -> T) -> T {
    let _reset = Reset;
    wire();
    let before = State::read();
    let output = run(&[&["tune", "apply"][..], arguments, &["--nic", "eth0", "--yes"]].concat());
    assert_code(&output, 0);
    let seen = look();
    assert_code(&run(&["tune", "undo"]), 0);
    wire();
    assert_restored(&before);
    seen
}

#[test]
#[ignore = "runs in a guest"]
fn the_papers_coalescing_is_set_and_put_back() {
    let seen = applied(&["paper-2019"], || (value("-c", "rx-usecs"), read("/proc/sys/net/core/busy_poll")));
    assert_eq!(seen, ("0".to_owned(), "50".to_owned()));
    assert_eq!(value("-c", "rx-usecs"), "3");
}

/// This driver takes at most 10000 µs: said by name, with everything that was changed before it put back. A parameter that
/// it has not at all is skipped and said.
#[test]
#[ignore = "runs in a guest"]
fn what_the_driver_refuses_undoes_the_rest() {
    let _reset = Reset;
    wire();
    let before = State::read();
    let settings = ["--set", "nic.ring.rx=512", "--set", "nic.coalesce.rx-usecs=20000"];
    let output = run(&[&["tune", "apply", "paper-2012", "--nic", "eth0", "--yes"][..], &settings].concat());
    let said = format!("{}{}", stdout(&output), stderr(&output));
    wire();
    assert_code(&output, 1);
    assert!(said.contains("coalesce rx-usecs: cannot set to '20000'"), "{said}");
    assert!(said.contains("skipped nic.coalesce.rx-usecs-irq=0: the driver of eth0 has no such setting"), "{said}");
    assert_restored(&before);
}

#[test]
#[ignore = "runs in a guest"]
fn rings_features_and_napi_are_set_and_put_back() {
    let settings = ["paper-2012", "--set", "nic.ring.rx=512", "--set", "nic.feature.gro=off"];
    let seen = applied(&settings, || (value("-g", "RX"), value("-k", "generic-receive-offload")));
    assert_eq!(seen, ("512".to_owned(), "off".to_owned()));
}

/// The driver rounds 100 descriptors up to 104: that is told, and is what undoing expects to find.
#[test]
#[ignore = "runs in a guest"]
fn a_ring_that_the_driver_rounds_is_told_and_put_back() {
    let _reset = Reset;
    wire();
    let before = State::read();
    let output = run(&["tune", "apply", "paper-2012", "--set", "nic.ring.rx=100", "--nic", "eth0", "--yes"]);
    let said = format!("{}{}", stdout(&output), stderr(&output));
    assert_code(&output, 0);
    assert_eq!(value("-g", "RX"), "104");
    assert!(said.contains("'104' instead of '100'"), "{said}");
    assert_code(&run(&["tune", "undo"]), 0);
    wire();
    assert_restored(&before);
}

/// Somebody else changes a setting after us: undoing leaves it, names it and ends with 1; with --force it is put back.
#[test]
#[ignore = "runs in a guest"]
fn what_another_changed_since_is_left() {
    let _reset = Reset;
    wire();
    let before = State::read();
    assert_code(&run(&["tune", "apply", "paper-2019", "--nic", "eth0", "--yes"]), 0);
    assert_eq!(ethtool(&["-C", "eth0", "rx-usecs", "60"]), "");
    let undone = run(&["tune", "undo"]);
    let said = format!("{}{}", stdout(&undone), stderr(&undone));
    assert_code(&undone, 1);
    assert!(said.contains("rx-usecs") && said.contains("'60'"), "{said}");
    assert_eq!(value("-c", "rx-usecs"), "60");
    assert_eq!(ethtool(&["-C", "eth0", "rx-usecs", "3"]), "");
    assert_restored(&before);
}

#[test]
#[ignore = "runs in a guest"]
fn a_dry_run_shows_the_change_and_makes_none() {
    wire();
    let before = State::read();
    let output = run(&["tune", "apply", "paper-2019", "--nic", "eth0", "--dry-run"]);
    assert_code(&output, 0);
    let line = stdout(&output).lines().find(|line| line.contains("rx-usecs")).unwrap_or_default().to_owned();
    assert!(line.contains('3') && line.contains('0'), "{}", stdout(&output));
    assert_restored(&before);
}

/// Everything leaves the CPU but the device's interrupts, which come: counted, not only asked for.
#[test]
#[ignore = "runs in a guest"]
fn a_shield_with_a_device_takes_its_interrupts_in() {
    let _reset = Reset;
    wire();
    let before = State::read();
    assert_code(&run(&["shield", "-a", "3", "--nic", "eth0", "--backend", "v2", "--yes"]), 0);
    let mut masks: Vec<String> = Vec::new();
    for irq in super::state::numbered("/sys/class/net/eth0/device/msi_irqs") {
        masks.push(read(format!("/proc/irq/{irq}/smp_affinity_list")));
    }
    let other = read(format!("/proc/irq/{}/smp_affinity_list", irq("acpi")));
    // The first interrupt after a change may still come to the old CPU.
    let warm = ping(2);
    let (away, there) = ((counts(0), counts(1), counts(2)), counts(3));
    let answered = ping(5);
    let (still_away, now_there) = ((counts(0), counts(1), counts(2)), counts(3));
    assert_code(&run(&["shield", "-r"]), 0);
    assert!(warm && answered);
    assert_eq!(masks, ["3", "3", "3"]);
    assert_eq!(other, "0-2");
    assert_eq!(away, still_away);
    assert!(there.iter().zip(&now_there).filter(|(before, now)| now > before).count() >= 2, "{there:?} {now_there:?}");
    assert_restored(&before);
}

/// What the doctor says of the device in one of its checks.
pub(crate) fn finding(id: &str) -> Option<serde_json::Value> {
    let found: serde_json::Value = serde_json::from_str(&stdout(&run(&["doctor", "--json", "--nic", "eth0"]))).unwrap();
    found["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == id).cloned()
}

/// The doctor sees the device's interrupt delay and names its remedy; with the remedy, it has nothing to say of it.
#[test]
#[ignore = "runs in a guest"]
fn the_doctor_finds_the_delay_and_its_remedy_works() {
    let finding = || finding("nic.coalesce");
    wire();
    let found = finding().unwrap();
    assert_ne!(found["severity"], "ok", "{found}");
    let setting = &found["remedies"][0]["setting"];
    assert_eq!((&setting["key"], &setting["value"]), (&"nic.coalesce.rx-usecs".into(), &"0".into()), "{found}");
    let cured = applied(&["paper-2019"], finding);
    assert!(cured.as_ref().is_none_or(|finding| finding["severity"] == "ok"), "{cured:?}");
}
