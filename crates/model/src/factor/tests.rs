use super::*;
use std::collections::BTreeSet;

/// Names are keys, so each stands once; what help and the reference show is there and is read.
#[test]
fn the_table_is_sound() {
    let (mut names, mut recorded_names) = (BTreeSet::new(), BTreeSet::new());
    for factor in all() {
        let name = factor.name;
        assert!(names.insert(name) && recorded_names.insert(factor.recorded_as), "{name} stands twice");
        assert!(factor.description().len() > 10 && factor.description().ends_with('.'), "{name}");
        if let Some(default) = factor.default {
            assert!(factor.read(default).is_ok(), "{name} does not read its default");
        }
        let has_default = factor.default.is_some() || factor.kind == ValueType::Sizes;
        assert!(has_default || !matches!(factor.record, Record::Always | Record::Named), "{name} has no default");
        for flag in factor.flags {
            assert!(HEADINGS.contains(&flag.heading) && !flag.on.is_empty(), "{name} {}", flag.long);
            assert!(flag.on.iter().all(|probe| factor.probes.contains(probe)), "{name} {}", flag.long);
            assert_eq!(flag.value_name.is_empty(), matches!(flag.gives, Gives::Word(_)), "{name} {}", flag.long);
        }
    }
    for probe in Probe::ALL {
        let mut flags = BTreeSet::new();
        let own = all().flat_map(|factor| factor.flags).filter(|flag| flag.on.contains(&probe));
        for flag in own {
            assert!(flags.insert(flag.long), "{probe} has --{} twice", flag.long);
        }
    }
}

#[test]
fn ends_may_differ() {
    let mut spec = ProbeSpec::new(Probe::Pingpong, Protocol::Udp);
    let mut set = |name: &str, value: Value| find(name).unwrap().apply(&mut spec, &value);
    set("busy_poll_us", Value::from(50)).unwrap();
    set("idle_udp", Value::from("3;0")).unwrap();
    set("device", Value::from("eth1;default")).unwrap();
    set("cpu", Value::from(" 0 ; any ")).unwrap();
    for (name, value) in
        [("busy_poll_us", "1;x"), ("cpu", "0;9999999"), ("bind", "10.0.0.1;host"), ("policy", "fifo:0")]
    {
        assert!(set(name, Value::from(value)).is_err(), "{name} = {value}");
    }
    let (here, far) = (&spec.initiator, &spec.reflector);
    assert_eq!((here.busy_poll_us, far.busy_poll_us), (Some(50), Some(50)));
    assert_eq!((here.idle.udp, far.idle.udp, here.cpu, far.cpu), (3, 0, Some(0), None));
    assert_eq!((here.device.as_deref(), far.device.as_deref()), (Some("eth1"), None));
}

#[test]
fn numbers_may_have_units() {
    for (text, number) in [("500k", 5e5), ("2.5G", 2.5e9), ("7", 7.0)] {
        assert_eq!(scaled(text), Ok(number));
    }
    for wrong in ["", "k", "-1", "0", "1T", "nan"] {
        assert!(scaled(wrong).is_err(), "{wrong}");
    }
    let bandwidth = find("bandwidth_bps").unwrap();
    assert_eq!(bandwidth.recorded(Some(&Value::from("100M")), true, false), Some(Value::from(100_000_000)));
}
