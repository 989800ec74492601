// Puts markup into every text that coop tells the page, whichever field it is in: also into those that no agent can fill
// today. What the page sends back is as if it had not been there.

/** Words of coop's own that say what something is, times, and what a terminal draws. Everything else can come from an agent. */
const OURS = ['type', 'kind', 'what', 'phase', 'role', 'state', 'channel', 'accept', 'ts', 'opened', 'since', 'until', 'diff', 'data', 'by'];

/** Runs in the page, before anything of it. */
function poisoned({ poison, ours }) {
  const spoil = (value, key) => {
    if (typeof value === 'string') return ours.includes(key) ? value : value + poison;
    // A line of a recording: when, what kind, what. A state is a word and what it is about.
    if (Array.isArray(value) && typeof value[0] === 'number' && typeof value[1] === 'string') return value[1] === 'm' ? [value[0], 'm', `${value[2]} ${poison}`] : value;
    if (Array.isArray(value)) return value.map((one) => spoil(one, key));
    if (typeof value === 'object' && value !== null) return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, spoil(one, name)]));
    return value;
  };
  const parse = JSON.parse.bind(JSON);
  JSON.parse = (text) => spoil(parse(text));
  const json = Response.prototype.json;
  Response.prototype.json = async function () {
    return spoil(await json.call(this));
  };
  const clean = (text) => text.replaceAll(encodeURIComponent(poison), '').replaceAll(JSON.stringify(poison).slice(1, -1), '');
  const { fetch, WebSocket } = window;
  window.fetch = (url, init) => fetch(clean(String(url)), init?.body ? { ...init, body: clean(init.body) } : init);
  window.WebSocket = class extends WebSocket {
    constructor(url) {
      super(clean(url));
    }
  };
}

export const poison = (context, text) => context.addInitScript(poisoned, { poison: text, ours: OURS });
