// As much of a WebSocket's server as a fake daemon needs: it only tells.
import { createHash } from 'node:crypto';

export function serveSocket(request, stream) {
  const key = createHash('sha1').update(`${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
  stream.write(`HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: ${key}\r\n\r\n`);
  stream.on('error', () => {});
  return {
    send(message) {
      const body = Buffer.from(JSON.stringify(message));
      const head = body.length < 126 ? Buffer.from([0x81, body.length]) : body.length < 65536 ? Buffer.from([0x81, 126, body.length >> 8, body.length & 255]) : Buffer.alloc(10);
      if (head.length === 10) {
        head[0] = 0x81;
        head[1] = 127;
        head.writeBigUInt64BE(BigInt(body.length), 2);
      }
      stream.write(Buffer.concat([head, body]));
    },
  };
}
