//! Known changes of the kernel that move tails (`known_changes.toml`), quoted only where version and symptom fit.

use crate::facts::is_preempt_rt;
use std::sync::OnceLock;

crate::words! {
    /// What has to be measured before a change is quoted.
    pub enum Symptom {
        /// A long tail while ksoftirqd ran, or messages that pass through it.
        KsoftirqdTail = "ksoftirqd-tail",
        /// Stalls of real-time tasks, though their time is not limited.
        UnlimitedStall = "unlimited-stall",
    }
}

/// A change of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownChange {
    /// What it is called here.
    pub id: String,
    /// The first version that behaves so: `4.9`.
    from: String,
    /// The first version that does not; absent: it still does.
    before: Option<String>,
    /// Whether it concerns PREEMPT_RT kernels, or the others; absent: both.
    real_time: Option<bool>,
    /// What has to be measured.
    pub symptom: Symptom,
    /// What the kernel does, as the end of a sentence.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
    /// What the version does not say.
    pub caveat: String,
    /// Where this is known from.
    pub source: String,
}

#[derive(serde::Deserialize)]
struct File {
    change: Vec<KnownChange>,
}

/// Version and patch level of a kernel's release: `6.1.0-49-amd64` is (6, 1).
pub fn version(release: &str) -> Option<(u32, u32)> {
    let (major, rest) = release.split_once('.')?;
    let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// All of them; none where the file that is built in is damaged, which a test would say.
fn all() -> &'static [KnownChange] {
    static ALL: OnceLock<Vec<KnownChange>> = OnceLock::new();
    ALL.get_or_init(|| parse(include_str!("known_changes.toml")).unwrap_or_default())
}

fn parse(text: &str) -> Result<Vec<KnownChange>, toml::de::Error> {
    toml::from_str::<File>(text).map(|file| file.change)
}

/// The changes of this release that cause this symptom. `preemption` as in [`crate::MachineFacts::preemption`].
pub fn fitting(
    release: &str,
    preemption: Option<&str>,
    symptom: Symptom,
) -> impl Iterator<Item = &'static KnownChange> {
    let (own, real_time) = (version(release), is_preempt_rt(preemption));
    all().iter().filter(move |change| {
        let in_range = own.is_some_and(|own| {
            version(&change.from).is_some_and(|from| own >= from)
                && change.before.as_deref().is_none_or(|before| version(before).is_some_and(|before| own < before))
        });
        change.symptom == symptom && in_range && change.real_time.is_none_or(|wanted| wanted == real_time)
    })
}

impl KnownChange {
    /// It as a sentence's end, with what it is known from: `this kernel …; remedy (source; caveat)`.
    pub fn sentence(&self) -> String {
        format!("{}. Remedy: {} ({}; {}).", self.what, self.remedy, self.source, self.caveat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_whole_and_in_order() {
        let all = parse(include_str!("known_changes.toml")).unwrap();
        assert!(!all.is_empty());
        for change in &all {
            let from = version(&change.from).unwrap();
            assert!(change.before.as_deref().is_none_or(|before| version(before).unwrap() > from), "{}", change.id);
            for text in [&change.what, &change.remedy, &change.caveat, &change.source] {
                assert!(!text.is_empty() && !text.contains('\n') && !text.ends_with('.'), "{}: {text}", change.id);
            }
        }
    }

    #[test]
    fn version_symptom_and_kind_have_to_fit() {
        let ids = |release: &str, preemption: &str, symptom| -> Vec<&str> {
            fitting(release, Some(preemption), symptom).map(|change| change.id.as_str()).collect()
        };
        use Symptom::{KsoftirqdTail, UnlimitedStall};
        assert_eq!(ids("6.1.0-49-amd64", "PREEMPT_DYNAMIC (voluntary)", KsoftirqdTail), ["ksoftirqd-hand-over"]);
        assert_eq!(ids("6.3.13", "none", KsoftirqdTail), ["ksoftirqd-hand-over"]);
        for (release, preemption) in [
            ("6.4.0", "none"),
            ("4.8.17", "none"),
            ("6.12.9", "none"),
            ("6.1.0-49-rt-amd64", "PREEMPT_RT"),
            ("x", "none"),
        ] {
            assert!(ids(release, preemption, KsoftirqdTail).is_empty(), "{release}");
        }
        assert_eq!(ids("6.12.9-rt", "PREEMPT_RT", UnlimitedStall), ["fair-server"]);
        assert!(ids("6.1.0-49-amd64", "none", UnlimitedStall).is_empty());
    }
}
