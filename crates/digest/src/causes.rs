//! Why messages of a cell were late: explanations of its repetitions added up, by class, and what changed between two cells.

use crate::combine::centre;
use crate::text::{by_key, each_once, whole};
use model::quantity::Unit;
use model::{Blame, CauseClass, Explanation, ResultDocument};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// What all causes of one class cost, at all ends together.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassLoss<'a> {
    pub class: CauseClass,
    /// By how much it made late messages later in all.
    pub lost_ns: u64,
    /// The share of what all late messages lost, 0 to 1.
    pub share: f64,
    /// Its causes, the one that cost most first.
    pub causes: Vec<&'a Blame>,
}

impl ClassLoss<'_> {
    /// The p99 as it would be without it: of several causes at most that without the best of them, as no more is known.
    pub fn p99_without_ns(&self) -> Option<u64> {
        self.causes.iter().filter_map(|blame| blame.p99_without_ns).min()
    }

    /// The names of its causes, the one that cost most first.
    pub fn names(&self) -> Vec<&str> {
        each_once(self.causes.iter().filter_map(|blame| blame.name.as_deref()))
    }
}

/// What tells causes apart: class, name and end.
type Key<'a> = (CauseClass, Option<&'a String>, &'a String);

/// What late messages lost in all, in ns. Without what the recorder cost them: a cell is measured without it.
pub fn lost_ns(explanation: &Explanation) -> u64 {
    of_the_cell(explanation).map(|blame| blame.lost_ns).sum()
}

/// Causes that are there without the recorder, too.
fn of_the_cell(explanation: &Explanation) -> impl Iterator<Item = &Blame> {
    explanation.causes.iter().filter(|blame| blame.class != CauseClass::Tracer)
}

/// The causes by class, the class that cost most first; without the recorder, as in [`lost_ns`].
pub fn by_class<'a>(explanation: &'a Explanation) -> Vec<ClassLoss<'a>> {
    let classes = by_key(of_the_cell(explanation).map(|blame| (blame.class, blame)));
    let all_ns = lost_ns(explanation).max(1) as f64;
    let of_class = |(class, mut causes): (CauseClass, Vec<&'a Blame>)| {
        causes.sort_by_key(|blame| std::cmp::Reverse(blame.lost_ns));
        let lost_ns: u64 = causes.iter().map(|blame| blame.lost_ns).sum();
        ClassLoss { class, lost_ns, share: lost_ns as f64 / all_ns, causes }
    };
    let mut losses: Vec<ClassLoss<'a>> = classes.into_iter().map(of_class).collect();
    losses.sort_by_key(|loss| std::cmp::Reverse(loss.lost_ns));
    losses
}

/// A class with a smaller share of all that changed is not listed.
const WORTH_A_ROW: f64 = 0.1;

/// What late messages lost on both sides of a comparison, in ns per message of the explaining passes; without the recorder, as in
/// [`lost_ns`].
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CauseChanges {
    /// On the first side a message is late if its round trip is longer, in ns.
    pub a_over_ns: u64,
    /// The same on the second side. With another limit other messages count as late, and losses are not comparable.
    pub b_over_ns: u64,
    /// What a message lost on average on the first side, in ns.
    pub a_ns: f64,
    /// The same on the second side.
    pub b_ns: f64,
    /// The classes of causes with at least 10 % of all that changed, the largest change first.
    pub classes: Vec<CauseChange>,
}

/// What one class of causes took from a message on average.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct CauseChange {
    /// The class.
    pub class: CauseClass,
    /// On the first side, in ns.
    pub a_ns: f64,
    /// On the second side, in ns.
    pub b_ns: f64,
    /// b - a, in ns.
    pub difference_ns: f64,
}

/// What changed between the results of two sides; `None` where the messages of one were not explained.
pub fn changes(a: &[&ResultDocument], b: &[&ResultDocument]) -> Option<CauseChanges> {
    let explained = |used| combined(used).filter(|explanation| explanation.messages > 0);
    let (a, b) = (explained(a)?, explained(b)?);
    let mut found: BTreeMap<CauseClass, [f64; 2]> = BTreeMap::new();
    for (side, explanation) in [&a, &b].into_iter().enumerate() {
        for blame in of_the_cell(explanation) {
            found.entry(blame.class).or_default()[side] += blame.lost_ns as f64 / explanation.messages as f64;
        }
    }
    let change =
        |(class, [a_ns, b_ns]): (CauseClass, [f64; 2])| CauseChange { class, a_ns, b_ns, difference_ns: b_ns - a_ns };
    let mut classes: Vec<CauseChange> = found.into_iter().map(change).collect();
    let [a_ns, b_ns] =
        [|one: &CauseChange| one.a_ns, |one: &CauseChange| one.b_ns].map(|of| classes.iter().map(of).sum());
    let changed_ns: f64 = classes.iter().map(|one| one.difference_ns.abs()).sum();
    classes.retain(|one| one.difference_ns != 0.0 && one.difference_ns.abs() >= WORTH_A_ROW * changed_ns);
    classes.sort_by(|x, y| y.difference_ns.abs().total_cmp(&x.difference_ns.abs()));
    Some(CauseChanges { a_over_ns: a.over_ns, b_over_ns: b.over_ns, a_ns, b_ns, classes })
}

/// The explanations of the repetitions of a cell as one: counts and losses are added up, times combined as elsewhere.
pub(crate) fn combined(used: &[&ResultDocument]) -> Option<Explanation> {
    let all: Vec<&Explanation> = used.iter().filter_map(|result| result.explanation.as_ref()).collect();
    let [_, _, ..] = all.as_slice() else { return all.first().map(|one| (*one).clone()) };
    let typical = |read: &dyn Fn(&Explanation) -> Option<u64>| {
        let values: Vec<f64> = all.iter().filter_map(|one| read(one)).map(|ns| ns as f64).collect();
        centre(&values, Unit::Ns).map(whole)
    };
    let mut rows: BTreeMap<Key<'_>, Vec<Option<&Blame>>> = BTreeMap::new();
    for (place, one) in all.iter().enumerate() {
        for blame in &one.causes {
            let row =
                rows.entry((blame.class, blame.name.as_ref(), &blame.host)).or_insert_with(|| vec![None; all.len()]);
            row[place] = Some(blame);
        }
    }
    let recorded_ns = |one: &Explanation| one.causes.iter().map(|blame| blame.lost_ns).sum::<u64>();
    let all_ns: u64 = all.iter().map(|one| recorded_ns(one)).sum();
    let of_row = |((class, name, host), row): (Key<'_>, Vec<Option<&Blame>>)| {
        let found = || row.iter().flatten();
        // A repetition without the cause has the quantile that it has.
        let without = |read: fn(&Blame) -> Option<u64>, measured: fn(&Explanation) -> Option<u64>| {
            found().find_map(|blame| read(blame))?;
            let each = all.iter().zip(&row).filter_map(|(one, blame)| blame.map_or_else(|| measured(one), read));
            centre(&each.map(|ns| ns as f64).collect::<Vec<_>>(), Unit::Ns).map(whole)
        };
        let lost_ns = found().map(|blame| blame.lost_ns).sum();
        Blame {
            class,
            name: name.cloned(),
            host: host.clone(),
            messages: found().map(|blame| blame.messages).sum(),
            lost_ns,
            share: lost_ns as f64 / all_ns.max(1) as f64,
            worst_ns: found().map(|blame| blame.worst_ns).max().unwrap_or(0),
            p99_without_ns: without(|blame| blame.p99_without_ns, |one| one.p99_ns),
            p99_9_without_ns: without(|blame| blame.p99_9_without_ns, |one| one.p99_9_ns),
        }
    };
    let mut causes: Vec<Blame> = rows.into_iter().map(of_row).collect();
    causes.sort_by(|a, b| b.lost_ns.cmp(&a.lost_ns).then_with(|| a.class.cmp(&b.class)));
    let explained_ns: f64 = all.iter().map(|one| one.explained * recorded_ns(one) as f64).sum();
    Some(Explanation {
        kind: all[0].kind,
        over_ns: typical(&|one| Some(one.over_ns).filter(|ns| *ns > 0)).unwrap_or(0),
        messages: all.iter().map(|one| one.messages).sum(),
        late: all.iter().map(|one| one.late).sum(),
        explained: explained_ns / all_ns.max(1) as f64,
        p50_before_ns: typical(&|one| one.p50_before_ns),
        p50_ns: typical(&|one| one.p50_ns),
        p99_ns: typical(&|one| one.p99_ns),
        p99_9_ns: typical(&|one| one.p99_9_ns),
        causes,
        limits: each_once(all.iter().flat_map(|one| one.limits.iter().cloned())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blame(class: CauseClass, name: &str, lost_ns: u64, p99_without_ns: Option<u64>) -> Blame {
        Blame {
            class,
            name: Some(name.to_owned()),
            host: "initiator".to_owned(),
            messages: 2,
            lost_ns,
            share: 0.0,
            worst_ns: lost_ns / 2,
            p99_without_ns,
            p99_9_without_ns: None,
        }
    }

    fn explained(explained: f64, p99_ns: u64, causes: Vec<Blame>) -> ResultDocument {
        let (messages, late, p99_ns) = (1_000, 10, Some(p99_ns));
        let limits = vec!["one end does not record".to_owned()];
        let explanation = Explanation { messages, late, explained, p99_ns, causes, limits, ..Explanation::default() };
        ResultDocument { explanation: Some(explanation), ..ResultDocument::default() }
    }

    #[test]
    fn repetitions_are_added_up() {
        use CauseClass::{Hardirq, NoEvent, RunQueue};
        let first =
            explained(1.0, 400, vec![blame(RunQueue, "cc1", 600, Some(100)), blame(Hardirq, "eth0", 100, Some(300))]);
        let second = explained(0.5, 900, vec![blame(NoEvent, "", 200, None), blame(RunQueue, "cc1", 100, Some(400))]);
        let whole = combined(&[&first, &ResultDocument::default(), &second]).unwrap();
        assert_eq!((whole.messages, whole.late, whole.p99_ns, whole.limits.len()), (2_000, 20, Some(600), 1));
        // 700 of 700 and 150 of 300.
        assert!((whole.explained - 0.85).abs() < 1e-9, "{whole:?}");
        let rows: Vec<_> =
            whole.causes.iter().map(|one| (one.class, one.messages, one.lost_ns, one.p99_without_ns)).collect();
        // Without the interrupt the second repetition is as it was: the middle of 300 and 900.
        let wanted = [(RunQueue, 4, 700, Some(200)), (NoEvent, 2, 200, None), (Hardirq, 2, 100, Some(520))];
        assert_eq!(rows, wanted);
        assert!((whole.causes.iter().map(|one| one.share).sum::<f64>() - 1.0).abs() < 1e-9, "{whole:?}");
        // One explanation stays what it is, shares that were stored among it.
        assert_eq!(combined(&[&first]), first.explanation);
        assert_eq!(combined(&[&ResultDocument::default()]), None);
    }

    /// Catches: a class that is several times in an answer, and the recorder in it.
    #[test]
    fn many_names_are_one_class() {
        use CauseClass::{Hardirq, RunQueue};
        let result = explained(
            1.0,
            900,
            vec![
                blame(CauseClass::Tracer, "wh-explain", 9_000, None),
                blame(Hardirq, "eth0", 350, Some(500)),
                blame(RunQueue, "rustc", 250, Some(600)),
                blame(RunQueue, "cc1", 400, Some(700)),
            ],
        );
        let explanation = result.explanation.unwrap();
        let losses = by_class(&explanation);
        assert_eq!(
            losses.iter().map(|loss| (loss.class, loss.lost_ns)).collect::<Vec<_>>(),
            [(RunQueue, 650), (Hardirq, 350)]
        );
        assert_eq!((losses[0].names(), losses[0].p99_without_ns()), (vec!["cc1", "rustc"], Some(600)));
        assert!((losses[0].share - 0.65).abs() < 1e-9);
    }

    /// Catches: sides with different numbers of messages, and classes that only one side has.
    #[test]
    fn changes_are_per_message_and_the_largest_comes_first() {
        use CauseClass::{Hardirq, Ipi, RunQueue, Steal};
        let causes = vec![
            blame(CauseClass::Tracer, "wh-explain", 90_000, None),
            blame(RunQueue, "cc1", 6_000, None),
            blame(RunQueue, "ld", 2_000, None),
            blame(Hardirq, "eth0", 3_000, None),
            blame(Ipi, "", 400, None),
        ];
        let a = explained(1.0, 900, causes);
        let mut b = explained(1.0, 500, vec![blame(Hardirq, "eth0", 6_000, None), blame(Steal, "", 4_000, None)]);
        b.explanation.as_mut().unwrap().messages = 2_000;
        let found = changes(&[&a], &[&b, &ResultDocument::default()]).unwrap();
        let rows: Vec<_> = found.classes.iter().map(|one| (one.class, one.a_ns, one.b_ns, one.difference_ns)).collect();
        // The interrupts cost the same per message; IPIs are 4 % of what changed.
        assert_eq!(rows, [(RunQueue, 8.0, 0.0, -8.0), (Steal, 0.0, 2.0, 2.0)]);
        assert_eq!((found.a_ns, found.b_ns), (11.4, 5.0), "all classes, the recorder left out");
        assert_eq!(changes(&[&a], &[&ResultDocument::default()]), None, "one side was not explained");
        b.explanation.as_mut().unwrap().messages = 0;
        assert_eq!(changes(&[&a], &[&b]), None, "nothing was recorded");
    }
}
