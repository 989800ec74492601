// A model that says the same to everything, in the four protocols the agents speak.
//
// It is also the agents' proxy, so that it hears of whatever they want from the rest of the world and refuses it.

import { once } from 'node:events';
import { createServer } from 'node:http';

export const ANSWER = 'Forty-two, said the model: 漢字, é, 👍🏽.';
/** A part of the answer that no agent shows in another way than it came. */
export const SHOWN = 'Forty-two, said the model';

const PIECES = ANSWER.split(/(?<= )/);
const ID = 'answer-1';
const MODEL = 'fixed';

const PROTOCOLS = [
  { path: /^\/v1\/messages\/count_tokens$/, answer: () => ({ input_tokens: 1 }) },
  { path: /^\/v1\/messages$/, answer: message, stream: messageEvents },
  { path: /^\/v1\/responses$/, answer: response, stream: responseEvents },
  { path: /^\/v1\/chat\/completions$/, answer: completion, stream: completionEvents },
  { path: /:generateContent$/, answer: () => candidate(ANSWER, 'STOP') },
  { path: /:streamGenerateContent$/, stream: candidateEvents },
];

/** Starts the model on a free port of the loopback interface. */
export async function startModel() {
  const outside = [];
  const refuse = (socket, host) => {
    outside.push(host);
    socket.end('HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n');
  };
  const server = createServer((request, reply) => {
    if (request.url.startsWith('/')) serve(request, reply);
    else refuse(request.socket, new URL(request.url).host);
  });
  server.on('connect', (request, socket) => {
    socket.on('error', () => {});
    refuse(socket, request.url);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    /** The hosts an agent tried to reach. */
    outside,
    stop: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

async function serve(request, reply) {
  let body = '';
  for await (const chunk of request.setEncoding('utf8')) body += chunk;
  const { pathname } = new URL(request.url, 'http://model');
  if (process.env.TRACE) console.error('model', request.method, request.url, body.slice(0, 300));
  const protocol = request.method === 'POST' && PROTOCOLS.find(({ path }) => path.test(pathname));
  if (!protocol) return json(reply, 404, { error: { type: 'not_found_error', message: `no ${pathname} here` } });
  const streams = protocol.stream && (!protocol.answer || JSON.parse(body).stream);
  if (!streams) return json(reply, 200, protocol.answer());
  reply.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const event of protocol.stream()) reply.write(framed(event));
  reply.end();
}

function json(reply, status, value) {
  reply.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
}

/** The event's type is its name too, for those who go by names. */
function framed(event) {
  const name = event.type ? `event: ${event.type}\n` : '';
  return `${name}data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`;
}

// Anthropic's Messages, for Claude Code.

function message(content = [{ type: 'text', text: ANSWER }], stop_reason = 'end_turn') {
  const usage = { input_tokens: 1, output_tokens: 1 };
  return { id: ID, type: 'message', role: 'assistant', model: MODEL, content, stop_reason, stop_sequence: null, usage };
}

function messageEvents() {
  return [
    { type: 'message_start', message: message([], null) },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    ...PIECES.map((text) => ({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } })),
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 1 } },
    { type: 'message_stop' },
  ];
}

// OpenAI's Responses, for Codex.

function response() {
  const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
  return { id: ID, object: 'response', status: 'completed', model: MODEL, output: [item(ANSWER)], usage };
}

function responseEvents() {
  return [
    { type: 'response.created', response: { id: ID } },
    { type: 'response.output_item.added', output_index: 0, item: item('') },
    ...PIECES.map((delta) => ({ type: 'response.output_text.delta', item_id: ID, output_index: 0, content_index: 0, delta })),
    { type: 'response.output_item.done', output_index: 0, item: item(ANSWER) },
    { type: 'response.completed', response: response() },
  ];
}

function item(text) {
  return { id: ID, type: 'message', role: 'assistant', content: text ? [{ type: 'output_text', text }] : [] };
}

// OpenAI's chat completions, for OpenCode.

function completion() {
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
  const choices = [{ index: 0, message: { role: 'assistant', content: ANSWER }, finish_reason: 'stop' }];
  return { id: ID, object: 'chat.completion', model: MODEL, choices, usage };
}

function completionEvents() {
  const chunk = (delta, finish_reason = null) =>
    ({ id: ID, object: 'chat.completion.chunk', model: MODEL, choices: [{ index: 0, delta, finish_reason }] });
  return [...PIECES.map((content) => chunk({ role: 'assistant', content })), chunk({}, 'stop'), '[DONE]'];
}

// Google's generateContent, for Gemini CLI.

function candidate(text, finishReason) {
  return {
    candidates: [{ index: 0, content: { role: 'model', parts: [{ text }] }, finishReason }],
    usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
  };
}

function candidateEvents() {
  return PIECES.map((text, index) => candidate(text, index === PIECES.length - 1 ? 'STOP' : undefined));
}
