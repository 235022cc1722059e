//! Kernels compared, boot by boot.

use super::*;

/// A run of two kernels: of each `boots`, each of them shifted as a whole, with several repetitions in each.
fn of_kernels(boots: u32, factor: f64, seed: u64) -> RunInput {
    let (base, mut noise) = (base(), Chance::new(seed));
    let mut run = sample::run(&EMPTY);
    for visit in 1..=boots {
        for (kernel, by) in [("guest:debian-6.1", 1.0), ("guest:debian-6.1-rt", factor)] {
            let shift = 1.0 + 0.08 * noise.normal();
            for repetition in 1..=4 {
                let size = 32;
                let mut result = result(&base, "fifo:50", size, (visit - 1) * 4 + repetition, by * shift, &mut noise);
                result.factors.insert("kernel".into(), kernel.into());
                let ids = [("a".to_owned(), format!("{kernel}-{visit}"))].into_iter().collect();
                result.boot = Some(CellBoot { visit, ids });
                run.results.push(result);
            }
        }
    }
    run
}

#[test]
fn two_kernels_of_one_run_are_compared_with_their_options() {
    let mut run = of_kernels(4, 0.5, 1);
    let machine = |boot: &str, config: &str| model::MachineFacts {
        boot_id: boot.to_owned(),
        kernel_release: Some(boot.to_owned()),
        kernel_config: Some(config.to_owned()),
        kernel_config_id: Some(config.to_owned()),
        ..Default::default()
    };
    for (kernel, config) in [
        ("guest:debian-6.1", "CONFIG_HZ=250\nCONFIG_PREEMPT_VOLUNTARY=y\n"),
        ("guest:debian-6.1-rt", "CONFIG_HZ=250\nCONFIG_PREEMPT_RT=y\n"),
    ] {
        for visit in 1..=4 {
            let boot = format!("{kernel}-{visit}");
            run.document.machines.insert(boot.clone(), machine(&boot, config));
        }
    }
    let axis = CompareOptions { axis: Some("kernel".to_owned()), ..options() };
    let made = compare::of(std::slice::from_ref(&run), &[], &axis).unwrap();
    let differences = &made.comparisons[0].differences;
    let of = |what: &str| {
        differences.iter().find(|one| one.what.contains(what)).unwrap_or_else(|| panic!("{differences:#?}"))
    };
    assert_eq!(of("CONFIG_PREEMPT_RT").b.as_deref(), Some("y"));
    assert_eq!(of("CONFIG_PREEMPT_VOLUNTARY").b.as_deref(), Some("not set"));
    assert_eq!(of("initiator: kernel release").a.as_deref(), Some("guest:debian-6.1-1"));
    assert!(!differences.iter().any(|one| one.what.contains("CONFIG_HZ")), "{differences:#?}");
    // The kernel is a factor of its own; the operating system is that of both. Each kernel's machine is shown once.
    let report = Report::from_inputs(vec![run], &Options::default());
    let page = report.page().unwrap().html;
    for kernel in ["guest:debian-6.1", "guest:debian-6.1-rt"] {
        assert_eq!(page.matches(&format!("Machine of a with kernel {kernel}<")).count(), 1, "{kernel}");
    }
    let cells = report.document().cells.clone();
    let systems: std::collections::BTreeSet<&String> = cells.iter().map(|cell| &cell.factors["os"]).collect();
    assert_eq!(systems.len(), 1);
    assert!(systems.iter().all(|os| !os.contains("6.")), "{systems:?}");
}

#[test]
fn kernels_are_compared_by_boots_and_a_kernel_does_not_differ_from_itself() {
    let options = CompareOptions { axis: Some("kernel".to_owned()), ..options() };
    let claims = |run: &RunInput| {
        let made = compare::of(std::slice::from_ref(run), &[], &options).unwrap();
        let figures = made.comparisons[0].cells.iter().flat_map(|cell| &cell.metrics);
        figures.filter(|figure| matches!(figure.outcome, Outcome::Higher | Outcome::Lower)).count()
    };
    let mut by_repetitions = 0;
    for seed in 1..=20 {
        let same = of_kernels(6, 1.0, seed);
        assert_eq!(claims(&same), 0, "a kernel with itself, pair {seed}");
        assert!(claims(&of_kernels(6, 0.5, seed)) >= 3, "half the time, pair {seed}");
        // The same figures, had nobody known of boots.
        let mut unknown = same;
        unknown.results.iter_mut().for_each(|result| result.boot = None);
        by_repetitions += usize::from(claims(&unknown) > 0);
    }
    assert!(
        by_repetitions >= 5,
        "repetitions of one boot are no evidence: only {by_repetitions} of 20 pairs were claimed"
    );
    let made = compare::of(&[of_kernels(6, 0.5, 1)], &[], &options).unwrap();
    let comparison = &made.comparisons[0];
    assert_eq!((comparison.sample, comparison.cells[0].a.runs), (Sample::Boot, 1));
    assert_eq!((comparison.cells[0].metrics[0].a_values.len(), comparison.cells[0].a.repetitions), (6, 24));
    let text = made.text(100, true).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("6 boots a side, 24 repetitions of each cell on a side"), "{text}");
    // Too few boots, however many repetitions they have.
    let made = compare::of(&[of_kernels(3, 0.5, 1)], &[], &options).unwrap();
    let few = |outcome: Outcome| matches!(outcome, Outcome::TooFew | Outcome::Same);
    assert!(made.comparisons[0].cells[0].metrics.iter().all(|figure| few(figure.outcome)));
    let text = made.text(100, true).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("Measured, not decided: ") && text.contains("3 and 3 boots cannot"), "{text}");
    // Other axes of the run keep the repetition: their values share each boot.
    let mut loads = of_kernels(6, 1.0, 1);
    let more = of_kernels(6, 1.0, 1).results.into_iter().map(|mut result| {
        result.factors.insert("load".into(), "build".into());
        result
    });
    loads.results.extend(more);
    let by_load = CompareOptions { axis: Some("load".to_owned()), ..CompareOptions::default() };
    let made = compare::of(&[loads], &[], &by_load).unwrap();
    assert_eq!(made.comparisons[0].sample, Sample::Repetition);
}

#[test]
fn a_report_shows_the_spread_between_boots_and_within_them() {
    let mut run = of_kernels(12, 0.5, 3);
    for machine in run.document.machines.values_mut() {
        machine.kernel_release = Some("6.1.0-of-the-last-boot".to_owned());
    }
    let report = Report::from_inputs(vec![run], &Options::default());
    let rows = report.document().blocks.iter().flat_map(|block| &block.rows);
    let mut systems = rows.filter(|row| row.row.is_some()).map(|row| row.factors["os"].as_str());
    assert!(systems.all(|os| !os.contains("last-boot")), "one row for each kernel, and none is the machine's");
    let boots = &report.document().boots;
    assert_eq!(boots.len(), 2);
    for spread in boots {
        assert_eq!(spread.boots.len(), 12);
        assert!(spread.boots.iter().zip(1..).all(|(boot, visit)| (boot.visit, boot.repetitions) == (visit, 4)));
        let (between, within) = (spread.p50_between_percent.unwrap(), spread.p50_within_percent.unwrap());
        // 8 % and 2 %, as they were drawn.
        assert!((4.0..14.0).contains(&between) && (1.2..3.2).contains(&within), "{spread:?}");
        assert_eq!(spread.p99_9_between_percent, None, "no repetition has it");
    }
    for text in [report.table_text(200), report.markdown(), report.page().unwrap().html] {
        assert!(text.contains("12 of 4 repetitions") && text.contains("guest:debian-6.1-rt"), "{text}");
    }
    let plain = Report::from_inputs(vec![self::run("a", 3, &SIZES, 1)], &Options::default());
    assert!(plain.document().boots.is_empty() && !plain.markdown().contains("Boots"));
}
