//! One-way times and parts of the round trip by the kernel's stamps, over a veth pair between two network namespaces that
//! take each other for two machines: the far end finds another boot id. Both really have one clock, so the true offset is
//! 0 and what is estimated can be held against it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use serde_json::Value;
use std::process::{Command, Output, Stdio};
use support::{Folder, assert_measured, can_make_namespaces, documents, stderr, stdout, windhover};

/// A shell line at the near end of a veth pair; two endpoints listen at $FAR and $OTHER, as on another machine. None where
/// that cannot be made. `environment` is of the far ends.
fn between_machines(test: &str, environment: &str, script: &str) -> Option<Output> {
    if !can_make_namespaces(test) {
        return None;
    }
    let folder = Folder::new(test);
    let id = folder.file("boot_id", "01234567-89ab-cdef-0123-456789abcdef\n");
    let far = format!(
        "mount --bind \"$ID\" /proc/sys/kernel/random/boot_id || exit 77; ip link set lo up; : > \"$DIR/ready\"; \
               until ip link set v1 up 2> /dev/null; do sleep 0.02; done; \
               ip addr add 198.18.9.2/24 dev v1; ip addr add 198.18.9.3/24 dev v1; \
               env {environment} \"$WINDHOVER\" serve --bind 198.18.9.3:7412 2> \"$DIR/other\" & other=$!; \
               trap 'kill $other $one; wait' TERM; \
               env {environment} \"$WINDHOVER\" serve --bind 198.18.9.2:7412 2> \"$DIR/far\" & one=$!; wait"
    );
    let near = format!(
        "unshare --net --mount --propagation private sh -c '{}' & far=$!; trap 'kill $far; wait' EXIT; \
         until [ -e \"$DIR/ready\" ]; do kill -0 $far 2> /dev/null || exit 77; sleep 0.02; done; \
         ip link set lo up; ip link add v0 type veth peer name v1 netns $far || exit 77; \
         ip addr add 198.18.9.1/24 dev v0; ip link set v0 up; \
         tries=0; until [ -s \"$DIR/other\" ] && [ -s \"$DIR/far\" ]; do \
         tries=$((tries + 1)); [ $tries -lt 100 ] || exit 77; sleep 0.05; done; {script}",
        far.replace('\'', "'\\''")
    );
    let key = folder.secret("key", &stdout(&windhover(&["key"]).output().unwrap()));
    let output = Command::new("timeout")
        .args(["60", "unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", &near])
        .env("ID", &id)
        .env("WINDHOVER_KEY_FILE", key)
        .env("DIR", folder.path())
        .env("FAR", "198.18.9.2:7412")
        .env("OTHER", "198.18.9.3:7412")
        .env("WINDHOVER", env!("CARGO_BIN_EXE_windhover"))
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    if output.status.code() == Some(77) {
        eprintln!("SKIPPED {test}: no pair of namespaces with a boot id of its own: {}", stderr(&output));
        return None;
    }
    Some(output)
}

/// The library that stands for a NIC with a clock; None without a C compiler.
fn nic(test: &str, folder: &Folder) -> Option<String> {
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nic/nic.c");
    let library = folder.0.join("nic.so");
    let compiler =
        Command::new("cc").args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(source).arg("-ldl").output();
    let Ok(compiler) = compiler else {
        eprintln!("SKIPPED {test}: there is no C compiler called cc");
        return None;
    };
    assert!(compiler.status.success(), "{}", stderr(&compiler));
    Some(library.to_str().unwrap().to_owned())
}

#[track_caller]
fn measured(output: &Output) -> Vec<Value> {
    assert_measured(output);
    documents(output)
}

/// Runs `$WITH windhover pace ARGUMENTS` for each call of `pace`, and ends with the worst exit code.
fn paces(calls: &str) -> String {
    format!(
        "worst=0; pace() {{ $WITH \"$WINDHOVER\" pace \"$@\" --size 100 --rate 1k --seconds 0.5 --warmup 20 --format json; \
         code=$?; [ $code -le $worst ] || worst=$code; }}; {calls}; exit $worst"
    )
}

/// The offset is none, and the bound must hold it.
#[track_caller]
fn assert_bound_holds_the_truth(way: &Value) {
    let (offset, error) = (way["offset_ns"].as_i64().unwrap(), way["error_ns"].as_i64().unwrap());
    assert!(offset.abs() <= error, "the true offset, 0, is not within {error} of {offset}: {way}");
    assert!(error > 0, "nothing is exact between two machines: {way}");
}

#[test]
fn the_offset_is_found_by_the_kernel_s_stamps_within_the_bound() {
    let script = paces("pace udp $FAR --stamps auto; pace tcp $FAR --stamps kernel; pace udp $FAR");
    let Some(output) = between_machines("stamps-one-way", "", &script) else { return };
    let all = measured(&output);
    assert_eq!(all.len(), 3);
    for (one, protocol) in all.iter().zip(["udp", "tcp"]) {
        let way = &one["one_way"];
        assert_bound_holds_the_truth(way);
        assert_eq!((&way["method"], &way["stamps"]), (&"min-rtt".into(), &"kernel".into()), "{protocol}: {way}");
        let clocks: Vec<&str> =
            way["clocks"].as_array().unwrap().iter().map(|clock| clock["stamps"].as_str().unwrap()).collect();
        assert_eq!(clocks, ["kernel", "kernel"], "no NIC here stamps");
        // Both ways together are the round trip less the far application, however the offset is.
        let count = way["out"]["count"].as_u64().unwrap();
        let (mut parts, mut whole) = (0.0, true);
        for name in ["send", "wire", "far-kernel", "near-kernel"] {
            let found = one["segments"].as_array().unwrap().iter().find(|segment| segment["name"] == name);
            let latency =
                &found.unwrap_or_else(|| panic!("{protocol}: {name} is not in {}", one["segments"]))["latency"];
            let told = latency["count"].as_u64().unwrap();
            assert!(told > 300, "{protocol} {name}: {latency}");
            parts += latency["mean_ns"].as_f64().unwrap();
            whole &= told == count;
        }
        let sum = way["out"]["mean_ns"].as_f64().unwrap() + way["back"]["mean_ns"].as_f64().unwrap();
        // Messages of a stream that left in one piece have one stamp.
        if whole || protocol == "udp" {
            assert!((sum / parts - 1.0).abs() < 0.02, "{protocol}: {sum} {parts}: {}", one["segments"]);
        } else {
            eprintln!("PARTLY stamps-one-way: the sum of the parts over {protocol}: some messages left in one piece");
        }
        // What lies between the stamps is less than the whole way, so the bound is closer than half the fastest round trip.
        let fastest = one["latency"]["min_ns"].as_f64().unwrap();
        assert!(way["error_ns"].as_f64().unwrap() < fastest / 2.0, "{protocol}: {way} {fastest}");
    }
    // Nobody asked for more. Here the offset is of the ticks, each end's since its own start of counting.
    assert_eq!(all[2]["one_way"]["stamps"], "application");
    assert!(all[2]["one_way"]["error_ns"].as_u64() > Some(0));
}

#[test]
fn several_reflectors_have_parts_and_one_way_times_each() {
    let script = paces("pace udp $FAR --to $OTHER --stamps kernel; pace tcp $FAR --to $OTHER --stamps kernel");
    let Some(output) = between_machines("stamps-several", "", &script) else { return };
    let all = measured(&output);
    for (one, protocol) in all.iter().zip(["udp", "tcp"]) {
        let names: Vec<&str> =
            one["segments"].as_array().unwrap().iter().map(|segment| segment["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["send", "wire", "far-kernel", "far-application", "near-kernel"], "{protocol}");
        for segment in one["segments"].as_array().unwrap() {
            assert!(segment["latency"]["count"].as_u64() > Some(800), "{protocol}: {segment}");
        }
        let reflectors = one["reflectors"].as_array().unwrap();
        assert_eq!(reflectors.len(), 2);
        for reflector in reflectors {
            assert_eq!(reflector["one_way"]["stamps"], "kernel", "{protocol}: {reflector}");
            assert_bound_holds_the_truth(&reflector["one_way"]);
        }
    }
}

/// Both ends stamp by NICs whose clocks lead by seconds and run at another rate; each way in which a driver lets its clock
/// be compared.
#[test]
fn the_offset_is_found_by_the_nics_stamps_whichever_way_their_clocks_are_related() {
    let test = "stamps-nic";
    let folder = Folder::new("stamps-nic-library");
    if !can_make_namespaces(test) {
        return;
    }
    let Some(library) = nic(test, &folder) else { return };
    let script = paces(&format!(
        "for way in precise extended basic gettime; do \
         WITH=\"env LD_PRELOAD={library} NIC_WAY=$way NIC_LEAD=37000000000 NIC_PPM=45\"; \
         pace udp $FAR --stamps hardware; done"
    ));
    let far = format!("LD_PRELOAD={library} NIC_WAY=extended NIC_LEAD=-123456789012 NIC_PPM=-60");
    let Some(output) = between_machines(test, &far, &script) else { return };
    let all = measured(&output);
    let ways = ["PTP_SYS_OFFSET_PRECISE", "PTP_SYS_OFFSET_EXTENDED", "PTP_SYS_OFFSET", "clock_gettime"];
    assert_eq!(all.len(), ways.len());
    let mut by_nic = 0;
    for (one, relation) in all.iter().zip(ways) {
        let way = &one["one_way"];
        let fastest = one["latency"]["min_ns"].as_u64().unwrap();
        // On a machine that is busy with other things a comparison may take so long that the application's stamps are
        // worth more; then they are what is used. Their offset is of the ticks, each end's since its own start of
        // counting: it is not 0.
        if way["stamps"] == "application" {
            assert!(way["error_ns"].as_u64().unwrap() <= fastest / 2 + 1, "the application's are worth no more: {way}");
            eprintln!("SKIPPED {relation} in {test}: the comparisons were worth less than the application's stamps");
            continue;
        }
        assert_eq!(way["stamps"], "hardware", "{way}");
        assert_bound_holds_the_truth(way);
        by_nic += 1;
        let clocks = way["clocks"].as_array().unwrap();
        let relations = clocks.iter().map(|clock| clock["relation"].as_str().unwrap()).collect::<Vec<_>>();
        assert_eq!(relations, [&format!("{relation} of /dev/ptp7"), "PTP_SYS_OFFSET_EXTENDED of /dev/ptp7"]);
        let errors: u64 = clocks.iter().map(|clock| clock["error_ns"].as_u64().unwrap()).sum();
        assert!(errors > 0 && way["error_ns"].as_u64() > Some(errors), "the clocks' errors are in the bound: {way}");
        let words: Vec<&str> =
            one["segments"].as_array().unwrap().iter().map(|segment| segment["stamps"].as_str().unwrap()).collect();
        assert_eq!(words, ["hardware", "hardware", "hardware", "application", "hardware"]);
    }
    assert!(by_nic > 0, "{all:?}");
}

/// NICs that stamp all that they send, but only PTP packets of what they receive.
#[test]
fn what_a_nic_does_not_stamp_is_stamped_by_the_kernel() {
    let test = "stamps-sent";
    let folder = Folder::new("stamps-sent-library");
    if !can_make_namespaces(test) {
        return;
    }
    let Some(library) = nic(test, &folder) else { return };
    let near = format!("LD_PRELOAD={library} NIC_WAY=extended NIC_LEAD=37000000000 NIC_PPM=45 NIC_ONLY_SENT=1");
    let refused = "\"$WINDHOVER\" pace udp $FAR --size 100 --stamps hardware --rate 1k --seconds 0.2 2>&1 >&2";
    let script = format!(
        "why=$(env {near} {refused}); code=$?; [ $code = 2 ] || exit 90; \
         case $why in *'only of PTP packets'*'use --stamps hardware-sent'*) ;; *) echo \"$why\" >&2; exit 91;; esac; {}",
        paces(&format!("WITH=\"env {near}\"; pace udp $FAR --stamps hardware-sent"))
    );
    let far = format!("LD_PRELOAD={library} NIC_WAY=extended NIC_LEAD=-123456789012 NIC_PPM=-60 NIC_ONLY_SENT=1");
    let Some(output) = between_machines(test, &far, &script) else { return };
    let all = measured(&output);
    let way = &all[0]["one_way"];
    assert_bound_holds_the_truth(way);
    let segments = all[0]["segments"].as_array().unwrap();
    let words: Vec<&str> = segments.iter().map(|segment| segment["stamps"].as_str().unwrap()).collect();
    assert_eq!(words, ["hardware", "hardware-sent", "kernel", "application", "kernel"]);
    if way["stamps"] == "application" {
        eprintln!("PARTLY {test}: one-way times: the comparisons were worth less than the application's stamps");
        return;
    }
    assert_eq!(way["stamps"], "hardware-sent", "{way}");
}

#[test]
fn hardware_stamps_that_no_nic_has_are_refused_with_what_there_is() {
    let script = "\"$WINDHOVER\" pace udp $FAR --size 100 --stamps hardware --rate 1k --seconds 0.2";
    let Some(output) = between_machines("stamps-hardware", "", script) else { return };
    let errors = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("has no hardware stamps") && errors.contains("software send"), "{errors}");
}
