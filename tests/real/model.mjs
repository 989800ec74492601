// A model that says the same to everything, in the four protocols the agents speak.
//
// It is their proxy too: it hears of all they want from the rest of the world and refuses it.

import { once } from 'node:events';
import { createServer } from 'node:http';

/** With what is hard to place on a screen: wide characters, an accent, an emoji of two code points. */
const ANSWER = 'Forty-two, said the model: 漢字, é, 👍🏽.';
/** The part of the answer that every agent shows as it came. */
export const SHOWN = 'Forty-two, said the model';

const WORDS = ANSWER.split(/(?<= )/);
const ID = 'answer-1';

const STREAMS = [
  [/^\/v1\/messages$/, claude],
  [/^\/v1\/responses$/, codex],
  [/^\/v1\/chat\/completions$/, opencode],
  [/:streamGenerateContent$/, gemini],
];
const REPLIES = [
  [/^\/v1\/messages\/count_tokens$/, () => ({ input_tokens: 1 })],
  [/:generateContent$/, () => candidate(ANSWER, 'STOP')],
];

/** Starts the model on a free port of the loopback interface. `refused` grows by each host that an agent asks for. */
export async function startModel() {
  const refused = new Set();
  const refuse = (socket, host) => {
    refused.add(host);
    socket.on('error', () => {});
    socket.end('HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n');
  };
  const server = createServer((request, reply) => {
    // A proxy is asked for whole addresses.
    if (request.url.startsWith('/')) serve(request, reply);
    else refuse(request.socket, new URL(request.url).host);
  });
  server.on('connect', (request, socket) => refuse(socket, request.url));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const stop = () => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${server.address().port}`, refused, stop };
}

function serve(request, reply) {
  request.resume();
  const { pathname } = new URL(request.url, 'http://model');
  const chosen = (table) => table.find(([path]) => request.method === 'POST' && path.test(pathname))?.[1];
  const send = (status, type, body) => reply.writeHead(status, { 'content-type': type }).end(body);
  const [stream, value] = [chosen(STREAMS)?.(), chosen(REPLIES)?.()];
  if (stream) send(200, 'text/event-stream', stream.map(framed).join(''));
  else if (value) send(200, 'application/json', JSON.stringify(value));
  else send(404, 'text/plain', `the model does not know ${pathname}`);
}

/** An event with a type has it as its name too. */
function framed(event) {
  const name = event.type ? `event: ${event.type}\n` : '';
  return `${name}data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`;
}

/** Anthropic's Messages. */
function claude() {
  const usage = { input_tokens: 1, output_tokens: 1 };
  const message = { id: ID, type: 'message', role: 'assistant', model: 'fixed', content: [], stop_reason: null, usage };
  return [
    { type: 'message_start', message },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    ...WORDS.map((text) => ({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } })),
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage },
    { type: 'message_stop' },
  ];
}

/** OpenAI's Responses. */
function codex() {
  const item = (content) => ({ id: ID, type: 'message', role: 'assistant', content });
  const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
  return [
    { type: 'response.created', response: { id: ID } },
    { type: 'response.output_item.added', item: item([]) },
    ...WORDS.map((delta) => ({ type: 'response.output_text.delta', item_id: ID, delta })),
    { type: 'response.output_item.done', item: item([{ type: 'output_text', text: ANSWER }]) },
    { type: 'response.completed', response: { id: ID, usage } },
  ];
}

/** OpenAI's chat completions. */
function opencode() {
  const chunk = (delta, finish_reason = null) => ({ id: ID, choices: [{ index: 0, delta, finish_reason }] });
  return [...WORDS.map((content) => chunk({ role: 'assistant', content })), chunk({}, 'stop'), '[DONE]'];
}

/** Google's generateContent. */
function gemini() {
  return [...WORDS.map((text) => candidate(text)), candidate('', 'STOP')];
}

function candidate(text, finishReason) {
  return { candidates: [{ index: 0, content: { role: 'model', parts: [{ text }] }, finishReason }] };
}
