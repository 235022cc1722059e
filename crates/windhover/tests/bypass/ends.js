// Both ends of an echo: `server|client net|dgram ADDRESS PORT`.
const net = require('net'), dgram = require('dgram'), http = require('http'), crypto = require('crypto');
const [role, how, address, port] = process.argv.slice(2);
const sha = (bytes) => crypto.createHash('sha256').update(bytes).digest('hex').slice(0, 16);
const content = (size) => Buffer.from(Array.from({ length: size }, (_, at) => (at * 7919 + size) & 255));
const sizes = [1, 100, 1400, 1500, 20000, 300000];

function call(size) {
  return new Promise((resolve) => {
    const parts = [], sent = content(size);
    const socket = net.connect(port, address, () => socket.end(sent));
    socket.setNoDelay(true);
    socket.on('data', (part) => parts.push(part));
    socket.on('error', (error) => resolve(`${size}: ${error.code}`));
    socket.on('end', () => resolve(`${size}: ${sha(Buffer.concat(parts)) === sha(sent) ? 'equal' : 'DIFFERENT'}`));
  });
}

function send(size) {
  return new Promise((resolve) => {
    const socket = dgram.createSocket('udp4'), sent = content(size);
    socket.on('message', (got, from) => {
      socket.close();
      resolve(`datagram ${size}: ${sha(got) === sha(sent) ? 'equal' : 'DIFFERENT'} from ${from.port == port}`);
    });
    socket.send(sent, port, address);
  });
}

const get = () => new Promise((resolve) => {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 4 });
  let left = 200, right = 0;
  for (let at = 0; at < 200; at++) {
    http.get({ agent, port: +port, host: address, path: `/${at}` }, (answer) => {
      let text = '';
      answer.on('data', (part) => { text += part; });
      answer.on('end', () => {
        right += text === `you asked for /${at}`;
        if (--left === 0) { agent.destroy(); resolve(`${right} of 200 right`); }
      });
    });
  }
});

if (role === 'server') {
  if (how === 'dgram') {
    const socket = dgram.createSocket('udp4');
    socket.on('message', (bytes, from) => socket.send(bytes, from.port, from.address));
    socket.bind(+port, address);
  } else if (how === 'http') {
    http.createServer((request, answer) => answer.end(`you asked for ${request.url}`)).listen(+port, address);
  } else {
    net.createServer({ allowHalfOpen: true }, (socket) => {
      socket.on('error', () => socket.destroy());
      socket.pipe(socket);
    }).listen(+port, address);
  }
} else {
  const nobody = () => new Promise((resolve) => {
    net.connect(9, address).on('error', (error) => resolve(`to nobody: ${error.code}`));
  });
  const calls = how === 'dgram' ? [1, 100, 1400, 20000].map(send) : how === 'http' ? [get()] : sizes.map(call).concat(nobody());
  Promise.all(calls).then((lines) => console.log(lines.join('\n')));
}
