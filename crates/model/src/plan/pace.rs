//! What PGM adds to the factors of results, and plans of `pace`.

use crate::{PgmCarrier, ProbeSpec};
use serde_json::Value;
use std::collections::BTreeMap;

/// What PGM adds to the factors of a result.
pub fn pgm_factors(spec: &ProbeSpec) -> BTreeMap<String, Value> {
    let mut factors = BTreeMap::new();
    let Some(pgm) = spec.socket.as_ref().and_then(|socket| socket.pgm.as_ref()) else { return factors };
    if pgm.carrier != PgmCarrier::default() {
        factors.insert("carrier".to_owned(), Value::from(pgm.carrier.word()));
    }
    if let Some(fec) = pgm.fec {
        factors.insert("fec".to_owned(), Value::from(fec.to_string()));
    }
    factors
}

#[cfg(test)]
mod tests {
    use crate::plan::tests::{assert_refused, cells, plan, plan_of};
    use crate::{Pacer, Plan, Probe};

    #[test]
    fn rates_are_an_axis_of_pace_alone() {
        let plan = plan(
            "[measure]\npacer = \"hybrid\"\nreceive_cpu = 1\nover_us = 1000.0\n\
             [[grid]]\nprobe = [\"pingpong\", \"pace\"]\nsize = [32, 1000]\nrate = [5000, \"10k-30k+10k\", 2.5]\n",
        )
        .unwrap();
        let cells = plan.cells().unwrap();
        assert_eq!(cells.len(), 2 + 2 * 5);
        assert!(cells[0].spec.pace().is_none() && !cells[0].factors.contains_key("rate"));
        let rates: Vec<String> = cells[2..7].iter().map(|cell| cell.factors["rate"].to_string()).collect();
        assert_eq!(rates, ["5000", "10000", "20000", "30000", "2.5"]);
        let last = cells.last().unwrap();
        assert_eq!(
            last.key,
            "cpu=any,load=none,pacer=hybrid,policy=other,probe=pace,protocol=udp,rate=2.5,receive=block,receive_cpu=1,\
             size=1000,stack=kernel"
        );
        assert_eq!((last.spec.probe(), last.spec.rtt), (Probe::Pace, true));
        let pace = last.spec.pace().unwrap();
        assert_eq!((pace.rates_pps.as_slice(), pace.pacer, pace.receive_cpu), (&[2.5][..], Pacer::Hybrid, Some(1)));
        assert_eq!(last.spec.outliers.over_ns, Some(1_000_000));
        assert_eq!(plan.cells().unwrap(), Plan::parse("again", &plan.to_text().unwrap()).unwrap().cells().unwrap());
    }

    #[test]
    fn a_random_delay_is_an_axis_and_a_factor_where_there_is_one() {
        let varied = cells("[[grid]]\nprobe = [\"pace\"]\nrandom_delay_percent = [0, 50]\n");
        let delays = varied.iter().map(|cell| cell.spec.pace().unwrap().random_delay_percent);
        assert_eq!(delays.collect::<Vec<_>>(), [None, Some(50)]);
        assert_eq!(varied[1].factors["random_delay_percent"], 50);
        let even = cells("[measure]\nrandom_delay_percent = 0\n[[grid]]\nprobe = [\"pace\"]\n");
        assert!(!even[0].factors.contains_key("random_delay_percent"));
    }

    #[test]
    fn rates_and_schedules_that_cannot_be() {
        let pace = "probe = [\"pace\"]\n";
        assert_refused([
            (format!("[[grid]]\n{pace}rate = [0]\n"), "rate 0"),
            (format!("[[grid]]\n{pace}rate = \"200M\"\n"), "rate 200000000"),
            (format!("[[grid]]\n{pace}rate = []\n"), "'rate' has no value"),
            (format!("[[grid]]\n{pace}rate = [10, 10]\n"), "twice"),
            (format!("[[grid]]\n{pace}rate = [\"fast\"]\n"), "'fast'"),
            ("[[grid]]\nrate = [10]\n".to_owned(), "no grid has pace"),
            ("[measure]\npacer = \"spin\"\n[[grid]]\n".to_owned(), "measure.pacer"),
            (format!("[measure]\nshape = \"square\"\n[[grid]]\n{pace}"), "'square'"),
            (format!("[measure]\nevery = 0\n[[grid]]\n{pace}"), "every 0"),
            (format!("[[grid]]\n{pace}random_delay_percent = [101]\n"), "random delay 101 %"),
            (
                format!("[measure]\nshape = \"poisson\"\nrandom_delay_percent = 5\n[[grid]]\n{pace}"),
                "with shape poisson",
            ),
            (format!("[measure]\ncpu = \"1\"\npacer = \"spin\"\n[[grid]]\n{pace}"), "CPU 1"),
            (format!("[[grid]]\n{pace}protocol = [\"pipe\"]\n"), "pipe"),
        ]);
    }

    #[test]
    fn a_grid_may_take_some_of_the_reflectors() {
        let rest = "[[grid]]\nprobe = [\"pace\"]\nreflectors = [1, 2]\n";
        let cells = plan_of("\"b\", \"c\"", rest).unwrap().cells().unwrap();
        let counts: Vec<_> =
            cells.iter().map(|cell| (cell.reflectors, cell.factors["reflectors"].to_string())).collect();
        assert_eq!(counts, [(Some(1), "1".to_owned()), (Some(2), "2".to_owned())]);
        let all = plan_of("\"b\", \"c\"", "[[grid]]\nprobe = [\"pace\"]\n").unwrap().cells().unwrap();
        assert_eq!((all[0].reflectors, all[0].factors.get("reflectors")), (None, None));
        for (rest, word) in [
            (rest.replace("[1, 2]", "[3]"), "1 to 2"),
            (rest.replace("[1, 2]", "[0]"), "1 to 2"),
            (rest.replace("[1, 2]", "[]"), "no value"),
            ("[[grid]]\nreflectors = [1]\n".to_owned(), "no grid has pace"),
        ] {
            let reflectors = if word.starts_with("no grid") { "\"b\"" } else { "\"b\", \"c\"" };
            let text = plan_of(reflectors, &rest).unwrap_err().to_string();
            assert!(text.contains(word), "{rest}: {text}");
        }
    }

    #[test]
    fn pgm_is_a_protocol_of_pace() {
        let group = "[measure.pgm]\ngroup = \"239.192.0.1\"\n";
        let pgm = "[[grid]]\nprobe = [\"pace\"]\nprotocol = [\"udp\", \"pgm\"]\nsize = [1000]\n";
        let plan = plan_of("\"b\", \"c\"", &format!("{group}{pgm}")).unwrap();
        let cells = plan.cells().unwrap();
        assert_eq!(cells.len(), 2);
        let socket = |at: usize| cells[at].spec.socket().unwrap();
        assert_eq!((&socket(0).pgm, socket(0).protocol), (&None, crate::Protocol::Udp));
        let spec = socket(1).pgm.as_ref().unwrap();
        assert_eq!(spec.reply_group().to_string(), "239.192.0.2");
        assert!(cells[1].key.contains("protocol=pgm") && !cells[1].key.contains("carrier"), "{}", cells[1].key);
        assert_eq!(plan.cells().unwrap(), Plan::parse("again", &plan.to_text().unwrap()).unwrap().cells().unwrap());
        let raw = self::cells(&format!("{group}carrier = \"raw\"\nback_off_us = 50\n{pgm}"));
        assert_eq!(raw[1].factors["carrier"], "raw");
        let fec = "[measure.pgm.fec]\ngroup_packets = 8\nproactive_packets = 1\n";
        let fec = self::plan(&format!("{group}{fec}{pgm}")).unwrap();
        assert_eq!(fec.cells().unwrap()[1].factors["fec"], "8+1");
        assert_eq!(Plan::parse("again", &fec.to_text().unwrap()).unwrap().cells().unwrap(), fec.cells().unwrap());
        let waits = self::cells(&format!("{group}{pgm}back_off_us = [0, 200]\n"));
        let waits: Vec<_> = waits[1..]
            .iter()
            .map(|cell| {
                (cell.spec.socket().unwrap().pgm.as_ref().unwrap().back_off_us, cell.factors["back_off_us"].to_string())
            })
            .collect();
        assert_eq!(waits, [(0, "0".to_owned()), (200, "200".to_owned())]);
        for (rest, words) in [
            (pgm.to_owned(), ["group", "pgm.group"]),
            (format!("{group}[[grid]]\nprobe = [\"pace\"]\n"), ["measure.pgm", "protocol"]),
            (format!("{group}{}", pgm.replace("1000", "32")), ["size", "64"]),
            (format!("{group}fec = {{ group_packets = 12 }}\n{pgm}"), ["fec.group_packets", "128"]),
            (format!("{group}fec = {{ proactive_packets = 1 }}\n{pgm}"), ["missing", "group_packets"]),
            (
                format!("{group}fec = {{ group_packets = 16, proactive = 1 }}\n{pgm}"),
                ["proactive", "proactive_packets"],
            ),
            (format!("{group}receive = \"x\"\n{pgm}"), ["receive", "unknown"]),
            (format!("[measure]\nstamps = \"kernel\"\n{group}{pgm}"), ["stamps", "pgm"]),
            (format!("{group}{pgm}[[grid]]\nprotocol = [\"pgm\"]\nsize = [1000]\n"), ["pingpong", "pgm carries pace"]),
            (format!("{group}{pgm}[[grid]]\nprobe = [\"rr\"]\nprotocol = [\"pgm\"]\n"), ["rr", "pgm carries pace"]),
            (
                format!("{group}{pgm}[[grid]]\nprobe = [\"stream\"]\nprotocol = [\"pgm\"]\n"),
                ["stream", "pgm carries pace"],
            ),
        ] {
            let text = self::plan(&rest).unwrap_err().to_string();
            assert!(words.iter().all(|word| text.contains(word)), "{rest}: {text}");
        }
    }

    #[test]
    fn several_reflectors_are_for_pace() {
        plan_of("\"b\", \"c\"", "[[grid]]\nprobe = [\"pace\"]\n").unwrap();
        for (reflectors, rest, word) in [
            ("\"b\", \"c\"", "[[grid]]\n", "pingpong"),
            ("\"b\", \"c\"", "[[grid]]\nprobe = [\"pace\", \"ping\"]\n", "ping"),
            ("\"b\", \"b\"", "[[grid]]\nprobe = [\"pace\"]\n", "twice"),
            ("\"b\", \"d\"", "[[grid]]\nprobe = [\"pace\"]\n", "'d'"),
        ] {
            let text = plan_of(reflectors, rest).unwrap_err().to_string();
            assert!(text.contains(word), "{text}");
        }
    }
}
