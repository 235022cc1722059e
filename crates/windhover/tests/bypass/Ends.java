import java.io.*;
import java.net.*;
import java.nio.ByteBuffer;
import java.nio.channels.*;
import java.util.*;
import java.util.zip.CRC32;

/** Both ends of an echo, with blocking sockets or with channels: `server|client blocking|channels|datagrams ADDRESS PORT`. */
class Ends {
    static final int[] SIZES = {1, 100, 1400, 1500, 20000, 300000};

    public static void main(String[] words) throws Exception {
        InetSocketAddress at = new InetSocketAddress(words[2], Integer.parseInt(words[3]));
        switch (words[0] + " " + words[1]) {
            case "server blocking" -> serveBlocking(at);
            case "server channels" -> serveChannels(at);
            case "server datagrams" -> serveDatagrams(at);
            case "client blocking" -> callBlocking(at);
            case "client channels" -> callChannels(at);
            default -> callDatagrams(at);
        }
    }

    static byte[] content(int size) {
        byte[] bytes = new byte[size];
        new Random(size).nextBytes(bytes);
        return bytes;
    }

    static void check(String what, byte[] sent, byte[] got) {
        CRC32 sum = new CRC32();
        sum.update(got);
        System.out.println(what + " " + got.length + " bytes, " + (Arrays.equals(sent, got) ? "equal" : "DIFFERENT") + " " + sum.getValue());
    }

    static void serveBlocking(InetSocketAddress at) throws Exception {
        ServerSocket listener = new ServerSocket();
        listener.bind(at);
        while (true) {
            Socket socket = listener.accept();
            new Thread(() -> {
                try (socket) {
                    socket.getInputStream().transferTo(socket.getOutputStream());
                } catch (IOException error) {
                    System.err.println(error);
                }
            }).start();
        }
    }

    static void callBlocking(InetSocketAddress at) throws Exception {
        try (Socket socket = new Socket()) {
            socket.setTcpNoDelay(true);
            socket.connect(at, 5000);
            OutputStream out = socket.getOutputStream();
            for (int size : SIZES) {
                byte[] sent = content(size);
                Thread writer = new Thread(() -> {
                    try {
                        out.write(sent);
                    } catch (IOException error) {
                        System.out.println(error);
                    }
                });
                writer.start();
                check("blocking", sent, socket.getInputStream().readNBytes(size));
                writer.join();
            }
            socket.setSoTimeout(50);
            try {
                socket.getInputStream().read();
            } catch (SocketTimeoutException error) {
                System.out.println("after 50 ms: " + error.getMessage());
            }
            socket.setSoTimeout(0);
            socket.shutdownOutput();
            System.out.println("after its end: " + socket.getInputStream().read());
        }
        Socket closed = new Socket();
        closed.connect(at);
        Thread closer = new Thread(() -> {
            try {
                Thread.sleep(100);
                closed.close();
            } catch (Exception error) {
                System.out.println(error);
            }
        });
        closer.start();
        try {
            closed.getInputStream().read();
        } catch (SocketException error) {
            System.out.println("closed by another thread: " + error.getMessage());
        }
        closer.join();
        try (Socket none = new Socket(at.getAddress(), 9)) {
            System.out.println("connected to nobody");
        } catch (ConnectException error) {
            System.out.println("to nobody: " + error.getMessage());
        }
    }

    static void serveChannels(InetSocketAddress at) throws Exception {
        Selector selector = Selector.open();
        ServerSocketChannel listener = ServerSocketChannel.open();
        listener.bind(at);
        listener.configureBlocking(false);
        listener.register(selector, SelectionKey.OP_ACCEPT);
        while (true) {
            selector.select();
            for (Iterator<SelectionKey> keys = selector.selectedKeys().iterator(); keys.hasNext(); keys.remove()) {
                SelectionKey key = keys.next();
                if (key.isAcceptable()) {
                    SocketChannel one = listener.accept();
                    one.configureBlocking(false);
                    one.register(selector, SelectionKey.OP_READ, ByteBuffer.allocateDirect(30000));
                    continue;
                }
                SocketChannel one = (SocketChannel) key.channel();
                ByteBuffer buffer = (ByteBuffer) key.attachment();
                int got = key.isReadable() ? one.read(buffer) : 0;
                if (got < 0) {
                    one.close();
                    continue;
                }
                buffer.flip();
                one.write(buffer);
                buffer.compact();
                key.interestOps((buffer.position() > 0 ? SelectionKey.OP_WRITE : 0) | (buffer.hasRemaining() ? SelectionKey.OP_READ : 0));
            }
        }
    }

    static void callChannels(InetSocketAddress at) throws Exception {
        Selector selector = Selector.open();
        Map<SocketChannel, ByteBuffer[]> ends = new LinkedHashMap<>();
        for (int size : SIZES) {
            SocketChannel channel = SocketChannel.open();
            channel.configureBlocking(false);
            channel.connect(at);
            channel.register(selector, SelectionKey.OP_CONNECT);
            ends.put(channel, new ByteBuffer[] {ByteBuffer.wrap(content(size)), ByteBuffer.allocate(size)});
        }
        for (int left = ends.size(); left > 0; ) {
            selector.select();
            for (Iterator<SelectionKey> keys = selector.selectedKeys().iterator(); keys.hasNext(); keys.remove()) {
                SelectionKey key = keys.next();
                SocketChannel channel = (SocketChannel) key.channel();
                ByteBuffer[] both = ends.get(channel);
                if (key.isConnectable()) {
                    channel.finishConnect();
                    key.interestOps(SelectionKey.OP_READ | SelectionKey.OP_WRITE);
                    continue;
                }
                if (key.isWritable() && both[0].hasRemaining()) {
                    channel.write(both[0]);
                } else if (key.isWritable()) {
                    key.interestOps(SelectionKey.OP_READ);
                }
                if (key.isReadable() && channel.read(both[1]) >= 0 && !both[1].hasRemaining()) {
                    channel.close();
                    left--;
                }
            }
        }
        for (ByteBuffer[] both : ends.values()) {
            check("channels", both[0].array(), both[1].array());
        }
    }

    static void serveDatagrams(InetSocketAddress at) throws Exception {
        try (DatagramSocket socket = new DatagramSocket(at)) {
            DatagramPacket packet = new DatagramPacket(new byte[65536], 65536);
            while (true) {
                packet.setLength(65536);
                socket.receive(packet);
                socket.send(packet);
            }
        }
    }

    static void callDatagrams(InetSocketAddress at) throws Exception {
        for (int size : new int[] {1, 100, 1472, 20000}) {
            try (DatagramSocket socket = new DatagramSocket(); DatagramChannel channel = DatagramChannel.open()) {
                byte[] sent = content(size);
                socket.setSoTimeout(5000);
                socket.send(new DatagramPacket(sent, size, at));
                DatagramPacket packet = new DatagramPacket(new byte[65536], 65536);
                socket.receive(packet);
                check("datagrams", sent, Arrays.copyOf(packet.getData(), packet.getLength()));
                channel.connect(at);
                channel.write(ByteBuffer.wrap(sent));
                ByteBuffer got = ByteBuffer.allocate(65536);
                channel.read(got);
                check("datagram channels", sent, Arrays.copyOf(got.array(), got.position()));
            }
        }
        try (DatagramSocket socket = new DatagramSocket()) {
            socket.setSoTimeout(50);
            socket.receive(new DatagramPacket(new byte[1], 1));
        } catch (SocketTimeoutException error) {
            System.out.println("after 50 ms: " + error.getMessage());
        }
    }
}
