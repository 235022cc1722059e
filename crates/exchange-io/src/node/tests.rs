use super::*;
use crate::image::{ImageReader, Sample};
use exchange::{Framing, HEADER_BYTES};
use std::net::UdpSocket;
use std::time::Instant;

mod pgm;
mod tcp;

/// A port that is free on 127.0.0.1 for now.
fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Nodes a, which publishes, and b, which subscribes. Their names are those of no other test.
struct Pair {
    file: ExchangeFile,
    a: String,
    b: String,
    port: u16,
}

fn pair(name: &str, topic: &str, publication: &str) -> Pair {
    let port = free_port();
    let (a, b) = (format!("test-{name}-a-{}", std::process::id()), format!("test-{name}-b-{}", std::process::id()));
    let text = format!(
        "[[topic]]\nname = \"axis\"\nid = 7\nperiod_us = 1000\n{topic}\n\
         [[topic.field]]\nname = \"position\"\ntype = \"u64\"\ncount = 3\n\
         [[node]]\nname = \"{a}\"\nid = 1\naddress = \"127.0.0.1\"\nport = {port}\n\
         publish = [{{ topic = \"axis\"{publication} }}]\n\
         [[node]]\nname = \"{b}\"\nid = 2\naddress = \"127.0.0.2\"\nport = {port}\nsubscribe = [\"axis\"]\n\
         clock = {{ source = \"same-host\", error_us = 0 }}\n"
    );
    Pair { file: ExchangeFile::read(&text).unwrap(), a, b, port }
}

impl Pair {
    fn start(&self, name: &str) -> Node {
        Node::start(&self.file, self.file.node(name).unwrap()).unwrap()
    }

    fn image(&self, name: &str) -> ImageReader {
        ImageReader::open(&image_path(name, "axis", false), None).unwrap()
    }
}

/// Waits until the image has so many samples.
fn until_written(reader: &ImageReader, count: u64) {
    let begun = Instant::now();
    while reader.written() < count {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} samples", reader.written());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_is_published_arrives_in_the_image() {
    for (name, topic) in [("uni", ""), ("multi", "group = \"239.255.26.1:PORT\"")] {
        let pair = pair(name, &topic.replace("PORT", &free_port().to_string()), "");
        let (b, a) = (pair.start(&pair.b), pair.start(&pair.a));
        let reader = pair.image(&pair.b);
        until_written(&reader, 200);
        assert!(reader.is_writer_alive(clock::monotonic_ns()));
        let mut data = [0; 24];
        let sample = reader.latest(&mut data).unwrap().unwrap();
        let expected: Vec<u8> = [sample.cycle; 3].iter().flat_map(|cycle| cycle.to_le_bytes()).collect();
        assert_eq!(data[..], expected, "each element is the cycle's number");
        assert!(sample.quality == Quality::Good && sample.sent_ns >= sample.scheduled_ns);
        let published = a.finish().unwrap().published.remove(0);
        let report = b.finish().unwrap();
        let subscribed = &report.subscribed[0];
        assert!(published.sent >= 200 && published.wake_up_ns.count == published.sent, "{published:?}");
        assert_eq!((subscribed.counters.received, subscribed.counters.fresh), (published.sent + 1, published.sent));
        assert_eq!((subscribed.counters.missing, subscribed.counters.duplicates), (0, 0));
        assert_eq!((subscribed.age_ns.unwrap().count, subscribed.deadline_by), (published.sent, "schedule"));
        assert_eq!(report.addresses[0].rejects, Rejects::default());
        assert!(ImageReader::open(&image_path(&pair.b, "axis", false), None).is_err(), "removed at the end");
    }
}

#[test]
fn a_publisher_that_starts_again_is_one_restart() {
    let pair = pair("restart", "", "");
    let b = pair.start(&pair.b);
    let reader = pair.image(&pair.b);
    for _ in 0..2 {
        let a = pair.start(&pair.a);
        until_written(&reader, reader.written() + 20);
        a.finish().unwrap();
    }
    let counters = b.finish().unwrap().subscribed.remove(0).counters;
    assert_eq!((counters.restarts, counters.missing, counters.old_epoch), (1, 0, 0));
    assert_eq!(counters.received, counters.fresh + 2);
}

#[test]
fn what_comes_from_the_network_and_is_no_frame_is_counted() {
    let pair = pair("hostile", "", "");
    let b = pair.start(&pair.b);
    let to = ("127.0.0.2", pair.port);
    let (right, wrong) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.3:0").unwrap());
    let topic = &pair.file.topics[0];
    let header = Header { topic: 7, publisher: 1, layout: topic.layout(), epoch: 1, ..Header::default() };
    let frame = |header: Header, data: &[u8]| {
        let mut bytes = vec![0; HEADER_BYTES + data.len()];
        Framing::Native.encode(&header, data, &mut bytes).unwrap();
        bytes
    };
    let good = frame(header, &[0; 24]);
    let with = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 0x40;
        bytes
    };
    for bytes in [b"short".to_vec(), with(0), with(2), good[..80].to_vec(), with(70), vec![0; 4000]] {
        right.send_to(&bytes, to).unwrap();
    }
    right.send_to(&frame(Header { topic: 8, ..header }, &[0; 24]), to).unwrap();
    wrong.send_to(&good, to).unwrap();
    right.send_to(&frame(Header { layout: 1, ..header }, &[0; 24]), to).unwrap();
    right.send_to(&frame(header, &[0; 16]), to).unwrap();
    right.send_to(&frame(Header { publisher: 2, ..header }, &[0; 24]), to).unwrap();
    right.send_to(&good, to).unwrap();
    until_written(&pair.image(&pair.b), 1);
    let report = b.finish().unwrap();
    let one_each = Rejects {
        short: 1,
        magic: 1,
        version: 1,
        length: 1,
        checksum: 1,
        unknown_topic: 1,
        other_sender: 1,
        too_long: 1,
        overflowed: 0,
        evicted: 0,
    };
    assert_eq!(report.addresses[0].rejects, one_each);
    let counters = report.subscribed[0].counters;
    assert_eq!((counters.layout_errors, counters.other_publisher, counters.received), (2, 1, 1));
}

#[test]
fn an_application_writes_what_is_published() {
    let pair = pair("input", "stale_us = 50000", ", source = \"image\"");
    let start = || Node::start(&pair.file, pair.file.node(&pair.a).unwrap());
    assert!(start().unwrap_err().to_string().contains(".axis.in cannot be opened"));
    let path = image_path(&pair.a, "axis", true);
    let mut input = ImageWriter::create(&path, &ImageSpec::new(&pair.file.topics[0])).unwrap().remove_at_end();
    let (b, a) = (pair.start(&pair.b), start().unwrap());
    let reader = pair.image(&pair.b);
    let mut data = [0; 24];
    let mut until_quality = |quality: Quality| {
        let begun = Instant::now();
        loop {
            match reader.latest(&mut data).unwrap() {
                Some(sample) if sample.quality == quality => break data,
                _ => assert!(begun.elapsed() < Duration::from_secs(60), "never {quality}"),
            }
        }
    };
    until_quality(Quality::Bad);
    input.write(&Sample { stored_ns: clock::monotonic_ns(), ..Sample::default() }, &[9; 24]);
    assert_eq!(until_quality(Quality::Good), [9; 24]);
    assert_eq!(until_quality(Quality::Stale), [9; 24]);
    drop((a, b));
}

#[test]
fn cycles_allocate_nothing() {
    let pair = pair("allocations", "", "");
    let node = |name: &str| pair.file.node(name).unwrap();
    let mut receiver = receivers(&pair.file, node(&pair.b)).unwrap().remove(0).1;
    let (a, topic) = (node(&pair.a), &pair.file.topics[0]);
    let mut publisher = publisher(&pair.file, a, &a.publish[0], topic).unwrap();
    let info = allocation_counter::measure(|| {
        for number in 0..1000 {
            publisher.cycle(number, clock::monotonic_ns()).unwrap();
            while receiver.turn(false).unwrap() == 0 {}
        }
    });
    assert_eq!(info.count_total, 0);
    assert_eq!(receiver.subscriptions[0].monitor.counters.fresh, 1000);
}

#[test]
fn what_cannot_be_had_is_one_clear_line() {
    let pair = pair("refused", "", "");
    let b = pair.start(&pair.b);
    let node = pair.file.node(&pair.b).unwrap();
    let again = Node::start(&pair.file, node).unwrap_err().to_string();
    assert!(again.contains("is written by process") && !again.contains('\n'), "{again}");
    drop(b.finish());
    let mut away = node.clone();
    away.address = "192.0.2.7".parse().unwrap();
    let error = Node::start(&pair.file, &away).unwrap_err().to_string();
    assert!(error.contains("192.0.2.7") && !error.contains('\n'), "{error}");
    let mut pinned = node.clone();
    pinned.cpu = Some(9999);
    let error = Node::start(&pair.file, &pinned).unwrap_err().to_string();
    assert!(error.contains("CPU 9999 does not exist here"), "{error}");
}

#[test]
fn frames_of_others_are_judged_by_arrivals() {
    for framing in ["sdn", "raw"] {
        let pair = pair(framing, &format!("framing = \"{framing}\""), "");
        let b = pair.start(&pair.b);
        let reader = pair.image(&pair.b);
        let mut sent = 0;
        for _ in 0..2 {
            let a = pair.start(&pair.a);
            until_written(&reader, reader.written() + 50);
            sent += a.finish().unwrap().published.remove(0).sent;
        }
        until_written(&reader, sent);
        let mut data = [0; 24];
        let sample = reader.latest(&mut data).unwrap().unwrap();
        assert!(data[0] > 0 && sample.quality == Quality::Good && (sample.epoch, sample.cycle) == (0, 0), "{sample:?}");
        assert_eq!((sample.sent_ns > 0, reader.is_numbered()), (framing == "sdn", framing == "sdn"));
        let subscribed = b.finish().unwrap().subscribed.remove(0);
        let counters = subscribed.counters;
        assert_eq!((counters.received, counters.fresh), (sent, sent), "no last frame");
        assert_eq!(counters.restarts, u64::from(framing == "sdn"));
        assert_eq!((counters.missing, counters.duplicates, counters.reordered, counters.old_epoch), (0, 0, 0, 0));
        assert_eq!((subscribed.deadline_by, subscribed.age_ns, subscribed.clock_error_ns), ("arrivals", None, None));
    }
}

#[test]
fn what_is_no_data_of_the_topic_is_counted() {
    for (framing, sdn) in [("sdn", 1), ("raw", 0)] {
        let pair = pair(&format!("odd-{framing}"), &format!("framing = \"{framing}\""), "");
        let b = pair.start(&pair.b);
        let to = ("127.0.0.2", pair.port);
        let (right, wrong) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.3:0").unwrap());
        let topic = &pair.file.topics[0];
        let own = Header { topic: topic.frame_topic(), layout: topic.frame_layout(), ..Header::default() };
        let send = |socket: &UdpSocket, header: Header, length: usize| {
            let mut bytes = [0; 100];
            let length = topic.framing.encode(&header, &[7; 100][..length], &mut bytes).unwrap();
            socket.send_to(&bytes[..length], to).unwrap();
        };
        send(&right, own, 23);
        send(&wrong, own, 24);
        if framing == "sdn" {
            send(&right, Header { topic: own.topic ^ 1, ..own }, 24);
            send(&right, Header { layout: own.layout ^ 1, ..own }, 24);
            right.send_to(b"SDN", to).unwrap();
        }
        send(&right, own, 24);
        until_written(&pair.image(&pair.b), 1);
        let report = b.finish().unwrap();
        let expected = Rejects { other_sender: 1, short: sdn, unknown_topic: sdn, ..Rejects::default() };
        assert_eq!(report.addresses[0].rejects, expected);
        let counters = report.subscribed[0].counters;
        assert_eq!((counters.layout_errors, counters.received, counters.restarts), (1 + sdn, 1, 0));
    }
}
