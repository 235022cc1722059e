//! One function a target: takes any bytes, must neither panic nor run for ever. The normal tests run each of them over
//! its corpus, so this file is compiled there too.

#[path = "pgm_entries.rs"]
mod pgm_entries;
#[path = "store_entries.rs"]
mod store_entries;
#[path = "wire_entries.rs"]
mod wire_entries;

/// A name, which is that of its corpus, and what takes the bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[Target] = &[
    ("frame", frame),
    ("control_server", control_server),
    ("control_client", control_client),
    ("data_header", data_header),
    ("stream_header", stream_header),
    ("control_message", control_message),
    ("key_file", key_file),
    ("agent_reply", agent_reply),
    ("run_json", run_json),
    ("result_document", result_document),
    ("journal", journal),
    ("plan", plan),
    ("hlog", hlog),
    ("histogram", histogram),
    ("typed_values", typed_values),
    ("worker_line", worker_line),
    ("icmp_reply", icmp_reply),
    ("proc_files", proc_files),
    ("netdev", netdev),
    ("flow_rule", flow_rule),
    ("task_files", task_files),
    ("undo_log", undo_log),
    ("capture_file", capture_file),
    ("captured_frame", captured_frame),
    ("pgm_packet", pgm_packet),
    ("pgm_engines", pgm_engines),
    ("lab_registry", lab_registry),
    ("ip_json", ip_json),
    ("shield_state", shield_state),
    ("qdisc", qdisc),
    ("route", route),
    ("tune_profile", tune_profile),
    ("doctor_document", doctor_document),
    ("zmtp", zmtp),
    ("cell_lines", cell_lines),
    ("gate", gate),
    ("stack_frames", stack_frames),
    ("tapped_frames", tapped_frames),
    ("import_file", import_file),
    ("foreign_line", foreign_line),
    ("sockperf", sockperf),
    ("exchange_frame", exchange_frame),
    ("exchange_file", exchange_file),
];

/// Frames of both protocols.
pub fn frame(bytes: &[u8]) {
    wire_entries::frame(bytes);
}

/// What a hostile client sends to an endpoint.
pub fn control_server(bytes: &[u8]) {
    wire_entries::control_server(bytes);
}

/// What a hostile endpoint sends to a client.
pub fn control_client(bytes: &[u8]) {
    wire_entries::control_client(bytes);
}

/// Headers of data messages.
pub fn data_header(bytes: &[u8]) {
    wire_entries::data_header(bytes);
}

/// Heads of a stream's datagrams, and what proves its flows.
pub fn stream_header(bytes: &[u8]) {
    wire_entries::stream_header(bytes);
}

/// Messages of the control session, stamps and reports included.
pub fn control_message(bytes: &[u8]) {
    wire_entries::control_message(bytes);
}

/// Key files.
pub fn key_file(bytes: &[u8]) {
    wire_entries::key_file(bytes);
}

/// What an agent answers.
pub fn agent_reply(bytes: &[u8]) {
    wire_entries::agent_reply(bytes);
}

/// `run.json`.
pub fn run_json(bytes: &[u8]) {
    store::exercise::run_json(bytes);
}

/// Result documents.
pub fn result_document(bytes: &[u8]) {
    store_entries::result_document(bytes);
}

/// `journal.jsonl`.
pub fn journal(bytes: &[u8]) {
    store::exercise::journal(bytes);
}

/// Campaign plans and all that they expand to.
pub fn plan(bytes: &[u8]) {
    store_entries::plan(bytes);
}

/// HdrHistogram interval logs.
pub fn hlog(bytes: &[u8]) {
    store_entries::hlog(bytes);
}

/// Histograms in documents.
pub fn histogram(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(histogram) = stats::Histogram::from_base64_v2(text)
    {
        let _ = histogram.quantile(0.99);
    }
}

/// Sizes, CPU lists and policies as people type them.
pub fn typed_values(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = text.parse::<model::SizeList>();
    let _ = text.parse::<model::CpuList>();
    let _ = text.parse::<model::Policy>();
}

/// Lines of a worker.
pub fn worker_line(bytes: &[u8]) {
    let _ = model::WorkerEvent::name_on_line(bytes);
    let _ = model::WorkerEvent::from_line(bytes);
}

/// ICMP echo replies.
pub fn icmp_reply(bytes: &[u8]) {
    let _ = net::icmp::parse_echo_reply(bytes);
}

/// Files of /proc that counters and usage come from.
pub fn proc_files(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = host::usage::parse_proc_stat(text, Some(1));
    let _ = host::usage::parse_schedstat_wait(text);
    let _ = host::usage::parse_sched_migrations(text);
    let _ = host::counters::parse_snmp(text);
    let _ = host::counters::parse_snmp6(text);
    let _ = host::counters::parse_net_dev(text);
    let _ = host::counters::parse_softnet_drops(text);
}

/// What the kernel answers about NAPI instances and queues over netlink.
pub fn netdev(bytes: &[u8]) {
    host::exercise::napi(bytes);
}

/// Flow rules as people type them and undo logs keep them: what is read prints as what is read again.
pub fn flow_rule(bytes: &[u8]) {
    if let Some(rule) = std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<host::knob::FlowRule>().ok()) {
        assert_eq!(rule.to_string().parse(), Ok(rule));
    }
}

/// Files of /proc that say which task is which and where it belongs.
pub fn task_files(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = host::tasks::parse_stat(&text);
    let _ = host::tasks::parse_cgroup(&text);
    let _ = host::tasks::parse_allowed(&text);
    let _ = host::tasks::parse_mounts(&text);
    host::exercise::time_offsets(bytes);
}

/// Undo logs.
pub fn undo_log(bytes: &[u8]) {
    host::exercise::undo_log(bytes);
}

/// Capture files of all forms.
pub fn capture_file(bytes: &[u8]) {
    net::capture::exercise(bytes);
}

/// Captured frames: every link layer, IP, UDP, TCP, our messages.
pub fn captured_frame(bytes: &[u8]) {
    wire_entries::dissect(bytes);
}

/// Packets of PGM.
pub fn pgm_packet(bytes: &[u8]) {
    pgm_entries::packet(bytes);
}

/// PGM's source and receiver, driven by a script.
pub fn pgm_engines(bytes: &[u8]) {
    pgm_entries::engines(bytes);
}

/// Files of the registry of labs.
pub fn lab_registry(bytes: &[u8]) {
    lab::exercise::registry(bytes);
}

/// What `ip -json` answers.
pub fn ip_json(bytes: &[u8]) {
    lab::exercise::ip_json(bytes);
}

/// `shield.json`.
pub fn shield_state(bytes: &[u8]) {
    host::exercise::shield_state(bytes);
}

/// What the kernel answers about queueing disciplines over netlink.
pub fn qdisc(bytes: &[u8]) {
    host::exercise::qdisc(bytes);
}

/// What the kernel answers about a route over netlink.
pub fn route(bytes: &[u8]) {
    net::route::exercise_answer(bytes);
}

/// Profiles of `tune`, by themselves and on top of built-in ones; and what would be installed of them.
pub fn tune_profile(bytes: &[u8]) {
    use prepare::tune::{Form, Profile, emit};

    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(profile) = Profile::parse("fuzzed", text) else { return };
    for form in [Form::Grub, Form::Systemd, Form::Tuned, Form::Udev] {
        let _ = emit(&profile, form, Some("eth0"), "/usr/bin/windhover", &[]);
    }
}

/// Documents of `doctor --save`.
pub fn doctor_document(bytes: &[u8]) {
    let Ok(document) = serde_json::from_slice::<prepare::doctor::Document>(bytes) else { return };
    assert!(!prepare::doctor::compare(&document, &document).differs(), "a document differs from itself");
}

/// ZeroMQ's framing of messages.
pub fn zmtp(bytes: &[u8]) {
    pgm_entries::zmtp(bytes);
}

/// Outliers, events and series of a cell.
pub fn cell_lines(bytes: &[u8]) {
    store::exercise::cell_lines(bytes);
}

/// Gates and metrics as people type them.
pub fn gate(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = text.parse::<digest::compare::Gate>();
    let _ = text.parse::<digest::Metric>();
}

/// Frames into the user-space stack, with sockets in many states, driven by a script.
pub fn stack_frames(bytes: &[u8]) {
    stack::exercise::frames(bytes);
}

/// What a program behind the preload library writes into the ring of its capture, and what the capture writes back.
pub fn tapped_frames(bytes: &[u8]) {
    xsk::exercise_tap(bytes);
}

/// What other tools wrote, read as the file of each of them: what is read holds together and can be stored.
pub fn import_file(bytes: &[u8]) {
    for format in &import::FORMATS {
        for nanoseconds in [false, true] {
            let hints = import::Hints { nanoseconds, ..import::Hints::default() };
            let Ok(imported) = import::read(format, "f", bytes, &hints) else { continue };
            assert!(!imported.results.is_empty());
            for measured in &imported.results {
                let latency = measured.result.latency.as_ref();
                assert!(latency.is_some_and(|latency| latency.count > 0), "{}", format.word);
                assert!(measured.result.is_imported());
                let text = serde_json::to_string(&measured.result);
                assert!(text.is_ok_and(|text| model::ResultDocument::read("f", &text).is_ok()), "{}", format.word);
            }
        }
    }
}

/// Lines of a foreign worker.
pub fn foreign_line(bytes: &[u8]) {
    for line in String::from_utf8_lossy(bytes).lines() {
        let _ = model::foreign::ForeignLine::read(line);
    }
}

/// What a client sends to `serve --as sockperf`, as a datagram and as a stream in parts: no answer is answered again.
pub fn sockperf(bytes: &[u8]) {
    let mut datagram = bytes.to_vec();
    if interop::sockperf::answer(&mut datagram) {
        assert!(interop::sockperf::read_pong(&datagram).is_some() && !interop::sockperf::answer(&mut datagram));
    }
    let mut incoming = interop::sockperf::Incoming::default();
    let check = |answer: &[u8]| assert!(interop::sockperf::read_pong(answer).is_some());
    let _ = bytes.chunks(11).try_for_each(|part| incoming.take(part, check));
}

/// Frames of an exchange, as datagrams of 100 bytes to one subscriber: what is read is written again, and all are counted. The same
/// bytes as those of a connection: chunks do not matter, and the frames are written to a connection again.
pub fn exchange_frame(bytes: &[u8]) {
    use exchange::Framing::{Native, Raw, Sdn};
    [Native, Sdn, Raw].into_iter().for_each(|framing| exchange_frames(framing, bytes));
    let frames = exchange_split(bytes, 100_000);
    assert_eq!(frames, exchange_split(bytes, 7));
    let mut queue = exchange::FrameQueue::new(1448);
    let mut written = Vec::new();
    for frame in &frames {
        for framing in [Native, Sdn, Raw] {
            let _ = framing.decode(frame);
        }
        assert!(queue.push(frame));
        written.extend_from_slice(queue.unsent());
        queue.sent(usize::MAX);
    }
    assert!(bytes.starts_with(&written) && queue.replaced == 0 && queue.clear() == 0);
}

/// The frames of a stream that arrives in chunks.
fn exchange_split(bytes: &[u8], chunk: usize) -> Vec<Vec<u8>> {
    let mut splitter = exchange::FrameSplitter::new(1..=1448);
    let (mut frames, mut left) = (Vec::new(), bytes);
    while !left.is_empty() {
        let room = splitter.room();
        let count = room.len().min(chunk).min(left.len());
        assert!(count > 0);
        room[..count].copy_from_slice(&left[..count]);
        splitter.arrived(count);
        left = &left[count..];
        while let Some(frame) = match splitter.take() {
            Ok(frame) => frame,
            Err(_) => return frames,
        } {
            frames.push(frame.to_vec());
        }
    }
    frames
}

fn exchange_frames(framing: exchange::Framing, bytes: &[u8]) {
    use exchange::{Arrival, Monitor, MonitorConfig, Outcome};
    let (period_ns, deadline_ns) = (1_000_000, 500_000);
    let has_common_clock = bytes.len().is_multiple_of(2);
    let publisher = u16::from(framing.is_native());
    let (layout, data_bytes) = (if framing.is_numbered() { 9 } else { 0 }, 100 - framing.header_bytes());
    let config = MonitorConfig { framing, publisher, layout, data_bytes, period_ns, deadline_ns, has_common_clock };
    let mut monitor = Monitor::new(config);
    let (mut frames, mut refused) = (0, 0);
    for (at, datagram) in bytes.chunks(100).enumerate() {
        let Ok((header, data)) = framing.decode(datagram) else { continue };
        let mut again = [0; 100];
        assert_eq!(framing.encode(&header, data, &mut again), Some(datagram.len()));
        assert_eq!(framing.decode(&again[..datagram.len()]), Ok((header, data)));
        let now_ns = at as u64 * 1_000_000;
        let outcome = monitor.on_frame(&header, data, Arrival { monotonic_ns: now_ns, real_ns: now_ns });
        frames += 1;
        refused += u64::from(outcome == Outcome::Refused);
    }
    monitor.finish(Arrival { monotonic_ns: u64::MAX, real_ns: u64::MAX });
    assert_eq!(monitor.counters.received + refused, frames);
}

/// Files of topics and nodes.
pub fn exchange_file(bytes: &[u8]) {
    if let Ok(file) = exchange::ExchangeFile::read(&String::from_utf8_lossy(bytes)) {
        let _ = exchange::Budget::new(&file);
        for topic in &file.topics {
            let mut data = vec![0; topic.bytes()];
            topic.write_pattern(u64::MAX, &mut data);
            topic.write_defaults(&mut data);
            let _ = file.targets(topic);
        }
    }
}
