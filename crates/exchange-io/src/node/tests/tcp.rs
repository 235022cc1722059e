use super::*;
use crate::report::{Connection, NodeReport};
use crate::tcp::tcp_receivers;
use exchange::{FrameSplitter, MAX_DATA_BYTES};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

fn tcp_pair(name: &str, topic: &str) -> Pair {
    pair(&format!("tcp-{name}"), &format!("transport = \"tcp\"\n{topic}"), "")
}

/// What a publisher's frames became.
fn connection(report: &NodeReport) -> (u64, Connection) {
    let published = &report.published[0];
    let connection = published.connections[0].clone();
    assert_eq!(published.lost, connection.replaced + connection.unsent);
    (published.sent, connection)
}

#[test]
fn what_is_published_arrives() {
    for framing in ["native", "sdn", "raw"] {
        let pair = tcp_pair(framing, &format!("framing = \"{framing}\""));
        let (b, a) = (pair.start(&pair.b), pair.start(&pair.a));
        let reader = pair.image(&pair.b);
        until_written(&reader, 200);
        let mut data = [0; 24];
        assert!(reader.latest(&mut data).unwrap().is_some());
        let numbers = data.as_chunks::<8>().0;
        assert!(numbers[0] != [0; 8] && numbers.iter().all(|number| *number == numbers[0]), "{data:?}");
        let (sent, connection) = connection(&a.finish().unwrap());
        // The last frame, which only native frames can be, has no value.
        let frames = sent + u64::from(framing == "native");
        until_written(&reader, sent - connection.replaced - connection.unsent);
        let report = b.finish().unwrap();
        let counters = report.subscribed[0].counters;
        assert_eq!(counters.received + connection.replaced + connection.unsent, frames, "{connection:?}");
        assert_eq!((counters.duplicates, counters.reordered, counters.restarts, connection.connects), (0, 0, 0, 1));
        assert_eq!(counters.missing, if framing == "raw" { 0 } else { connection.replaced });
        let address = &report.addresses[0];
        assert_eq!((address.transport, address.connections), (Transport::Tcp, Some(1)));
        assert_eq!(address.rejects, Rejects::default());
    }
}

#[test]
fn both_ends_may_start_again() {
    let pair = tcp_pair("again", "");
    let a = pair.start(&pair.a);
    for _ in 0..2 {
        let b = pair.start(&pair.b);
        until_written(&pair.image(&pair.b), 20);
        b.finish().unwrap();
    }
    let (_, first) = connection(&a.finish().unwrap());
    assert!(first.connects == 2 && first.unsent > 0, "{first:?}");
    let b = pair.start(&pair.b);
    let reader = pair.image(&pair.b);
    for _ in 0..2 {
        let a = pair.start(&pair.a);
        until_written(&reader, reader.written() + 20);
        a.finish().unwrap();
    }
    let report = b.finish().unwrap();
    let counters = report.subscribed[0].counters;
    assert_eq!((counters.restarts, counters.old_epoch), (1, 0));
    assert!(report.addresses[0].connections >= Some(2), "{report:?}");
}

/// Whether the other end closed a connection, which it has to.
fn is_closed(mut stream: TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    match stream.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn bytes_that_are_no_frames_end_their_connection() {
    let pair = tcp_pair("hostile", "");
    let b = pair.start(&pair.b);
    let to = SocketAddr::new("127.0.0.2".parse().unwrap(), pair.port);
    let connect =
        |from: &str| net::tcp::connect(to, Some(from.parse().unwrap()), None, Duration::from_secs(60)).unwrap();
    let topic = &pair.file.topics[0];
    let header = Header { topic: 7, publisher: 1, layout: topic.layout(), epoch: 1, ..Header::default() };
    let frame = |header: Header, data: &[u8]| {
        let mut bytes = vec![0; HEADER_BYTES + data.len()];
        Framing::Native.encode(&header, data, &mut bytes).unwrap();
        bytes
    };
    let stream = |frame: &[u8]| [&u16::try_from(frame.len()).unwrap().to_le_bytes(), frame].concat();
    let good = frame(header, &[0; 24]);
    let with = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 0x40;
        stream(&bytes)
    };
    for bytes in [stream(&good[..63]), vec![0xff; 2], stream(&good[..80]), with(0), with(2), with(70)] {
        let mut connection = connect("127.0.0.1");
        connection.write_all(&bytes).unwrap();
        assert!(is_closed(connection), "{bytes:?}");
    }
    assert!(is_closed(connect("127.0.0.3")), "no node that publishes has this address");
    // What is a frame does not end the connection.
    let mut connection = connect("127.0.0.1");
    let others = [
        frame(Header { topic: 8, ..header }, &[0; 24]),
        frame(Header { layout: 1, ..header }, &[0; 24]),
        frame(header, &[0; MAX_DATA_BYTES]),
        good.clone(),
    ];
    for byte in others.iter().flat_map(|frame| stream(frame)) {
        connection.write_all(&[byte]).unwrap();
    }
    until_written(&pair.image(&pair.b), 1);
    let report = b.finish().unwrap();
    let expected = Rejects {
        magic: 1,
        version: 1,
        length: 3,
        checksum: 1,
        unknown_topic: 1,
        other_sender: 1,
        ..Rejects::default()
    };
    assert_eq!((report.addresses[0].rejects, report.addresses[0].connections), (expected, Some(7)));
    let counters = report.subscribed[0].counters;
    assert_eq!((counters.layout_errors, counters.received), (2, 1));
}

#[test]
fn a_publisher_does_not_wait_for_the_end_of_its_former_connection() {
    let pair = tcp_pair("evicted", "");
    let b = pair.start(&pair.b);
    let to = SocketAddr::new("127.0.0.2".parse().unwrap(), pair.port);
    let from = Some("127.0.0.1".parse().unwrap());
    let silent: Vec<_> = (0..3).map(|_| net::tcp::connect(to, from, None, Duration::from_secs(60)).unwrap()).collect();
    let a = pair.start(&pair.a);
    until_written(&pair.image(&pair.b), 20);
    let report = b.finish().unwrap();
    assert_eq!((report.addresses[0].connections, report.addresses[0].rejects.evicted), (Some(4), 2));
    drop((a, silent));
}

/// The publisher of a pair, connected to a subscriber that this test is.
fn connected(pair: &Pair) -> (Publisher, TcpListener, TcpStream, u64) {
    let listener = TcpListener::bind(("127.0.0.2", pair.port)).unwrap();
    let node = pair.file.node(&pair.a).unwrap();
    let mut publisher = publisher(&pair.file, node, &node.publish[0], &pair.file.topics[0]).unwrap();
    let (stream, _) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    for number in 0.. {
        publisher.cycle(number, clock::monotonic_ns()).unwrap();
        if stream.peek(&mut [0]).is_ok() {
            return (publisher, listener, stream, number + 1);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    unreachable!()
}

#[test]
fn a_reader_that_reads_nothing_gets_the_newest_frame_later() {
    let pair = tcp_pair("slow", "");
    let (mut publisher, _listener, mut stream, begun) = connected(&pair);
    let cycles = begun + 50_000;
    for number in begun..cycles {
        publisher.cycle(number, clock::monotonic_ns()).unwrap();
    }
    let mut splitter = FrameSplitter::new(1..=HEADER_BYTES + MAX_DATA_BYTES);
    let (mut numbers, mut last) = (Vec::new(), cycles);
    let begin = Instant::now();
    while numbers.last() != Some(&(last - 1)) {
        assert!(begin.elapsed() < Duration::from_secs(60), "{} of {last}", numbers.len());
        match stream.read(splitter.room()) {
            Ok(count) => splitter.arrived(count),
            // All that waited was read: the next cycle sends the newest.
            Err(_) => {
                publisher.cycle(last, clock::monotonic_ns()).unwrap();
                last += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        while let Some(frame) = splitter.take().unwrap() {
            numbers.push(Framing::Native.decode(frame).unwrap().0.sequence);
        }
    }
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    let (lost, connections) = publisher.sender.finish();
    let connection = &connections[0];
    assert!(connection.replaced > cycles / 2 && connection.connects == 1, "{connection:?}");
    assert_eq!(numbers.len() as u64 + lost, last, "{connection:?}");
}

#[test]
fn a_connection_that_takes_nothing_is_made_again() {
    let pair = tcp_pair("stalled", "");
    let (mut publisher, listener, first, _) = connected(&pair);
    let now_ns = clock::monotonic_ns();
    let mut send = |after_s: u64| {
        let at_ns = now_ns + after_s * 1_000_000_000;
        publisher.sender.send(Framing::Native, &Header::default(), &[0; 24], at_ns).unwrap();
    };
    (0..50_000).for_each(|_| send(0));
    (0..100).for_each(|_| send(4));
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "too early");
    send(6);
    listener.set_nonblocking(false).unwrap();
    let (second, _) = listener.accept().unwrap();
    second.set_nonblocking(true).unwrap();
    let begun = Instant::now();
    while second.peek(&mut [0]).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(60));
        send(6);
        std::thread::sleep(Duration::from_millis(1));
    }
    let (_, connections) = publisher.sender.finish();
    assert!(connections[0].connects == 2 && connections[0].unsent > 0, "{connections:?}");
    drop(first);
}

#[test]
fn cycles_over_tcp_allocate_nothing() {
    let pair = tcp_pair("allocations", "");
    let node = |name: &str| pair.file.node(name).unwrap();
    let mut receiver = tcp_receivers(&pair.file, node(&pair.b)).unwrap().remove(0).1;
    let (a, topic) = (node(&pair.a), &pair.file.topics[0]);
    let mut publisher = publisher(&pair.file, a, &a.publish[0], topic).unwrap();
    let mut cycle = |number| {
        publisher.cycle(number, clock::monotonic_ns()).unwrap();
        receiver.turn(false).unwrap();
        receiver.subscriptions[0].monitor.counters.fresh
    };
    // Until there is a connection.
    let begun = (0..).find(|number| cycle(*number) > 0).unwrap() + 1;
    let mut fresh = cycle(begun);
    let info = allocation_counter::measure(|| {
        for number in begun + 1..begun + 1000 {
            let before = std::mem::replace(&mut fresh, cycle(number));
            assert!(fresh > before);
        }
    });
    assert_eq!(info.count_total, 0);
}
