// The keyboard. Nothing happens while somebody types into a field or the terminal.

import { flushSync } from 'svelte';

import { linkTo } from './place';
import { route } from './route.svelte';
import { sorted } from './sorted';
import { store } from './store.svelte';
import { ui } from './ui.svelte';

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.closest('.xterm') !== null);
}

export function keys(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.key === 'Escape' && event.target instanceof HTMLElement && isTyping(event.target) && !event.target.closest('.xterm')) {
    event.target.blur();
    return;
  }
  if (isTyping(event.target) || ui.dialog !== 'none' || store.link === 'login') return;
  const done = scroll(event) || act(event.key);
  if (done) event.preventDefault();
}

function act(key: string): boolean {
  switch (key) {
    case '?':
      ui.dialog = 'help';
      return true;
    case '/':
      // At once: what is typed next must not be taken for an answer.
      flushSync(() => (ui.drawer = true));
      document.getElementById('filter')?.focus();
      return true;
    case 'i':
      route.go('#/');
      return true;
    case 'h':
      if (store.mode !== 'fleet') return false;
      route.go('#/history');
      return true;
    case 'n':
      if (store.mode !== 'fleet') return false;
      ui.dialog = 'spawn';
      return true;
    case 'j':
      return step(1);
    case 'k':
      return step(-1);
    case 'a':
      return press('[data-kind=allow_once]');
    case 'd':
      return press('[data-kind=reject]');
    default:
      return /^[1-9]$/.test(key) && press(`[data-number="${key}"]`);
  }
}

function step(by: number): boolean {
  if (route.place.view === 'inbox') {
    const at = ui.listed.indexOf(ui.marked);
    const next = ui.listed[at < 0 ? 0 : Math.max(0, Math.min(ui.listed.length - 1, at + by))];
    if (next === undefined) return true;
    ui.marked = next;
    document.querySelector(`.ask[data-key=${JSON.stringify(next)}]`)?.scrollIntoView({ block: 'nearest' });
    return true;
  }
  if (route.place.view !== 'agent') return false;
  const ids = sorted(Object.values(store.agents)).map((agent) => agent.id);
  const at = ids.indexOf(route.place.agent);
  const next = ids[Math.max(0, Math.min(ids.length - 1, at + by))];
  if (next) route.go(linkTo(next, route.place.tab));
  return true;
}

/** Scrolls what the marked ask is about, from wherever the focus is but in a field or in something that scrolls itself. */
function scroll(event: KeyboardEvent): boolean {
  const body = document.querySelector<HTMLElement>('.ask.selected .body');
  const target = event.target instanceof HTMLElement ? event.target : document.body;
  if (!body || body.contains(target) || !(target === document.body || target.matches('main, .ask *'))) return false;
  const page = body.clientHeight * 0.9;
  const by: Record<string, number> = {
    ArrowDown: 40,
    ArrowUp: -40,
    PageDown: page,
    PageUp: -page,
    // A button takes it as a press.
    ' ': target.tagName === 'BUTTON' ? 0 : event.shiftKey ? -page : page,
    End: body.scrollHeight,
    Home: -body.scrollHeight,
  };
  const before = body.scrollTop;
  body.scrollTop += by[event.key] ?? 0;
  if (body.scrollTop === before) return false;
  const top = body.getBoundingClientRect().top;
  body.scrollIntoView({ block: 'nearest' });
  // Lines that come into sight by this are shown before they are scrolled away.
  if (body.getBoundingClientRect().top !== top) body.scrollTop = before;
  return true;
}

/** Presses a button of the ask that is meant, which is the one marked so. It may have reasons not to be pressed. */
function press(selector: string): boolean {
  const button = document.querySelector<HTMLButtonElement>(`.ask.selected ${selector}:not(:disabled)`);
  button?.click();
  return button !== null;
}
