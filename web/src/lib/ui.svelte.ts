// What is only about this window: theme, notices, open dialogs.

export type Theme = 'system' | 'light' | 'dark';

interface Notice {
  id: number;
  text: string;
  tone: 'plain' | 'bad';
}

class Ui {
  theme = $state<Theme>('system');
  notices = $state<Notice[]>([]);
  /** On a phone the list of agents is a drawer. */
  drawer = $state(false);
  dialog = $state<'none' | 'help' | 'spawn'>('none');
  /** The asks on the screen, by their keys, from the top. */
  listed: string[] = [];
  /** Which of them the keys mean. By its key and not by its place: agents choose when a list changes. */
  marked = $state('');
  /** How often asks have changed their places. */
  moves = $state(0);
  #next = 1;

  constructor() {
    try {
      const kept = localStorage.getItem('coop-theme');
      if (kept === 'light' || kept === 'dark') this.setTheme(kept);
    } catch {
      // Without storage it is the system's.
    }
  }

  setTheme(theme: Theme): void {
    this.theme = theme;
    if (theme === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem('coop-theme', theme);
    } catch {
      // Not kept, then.
    }
  }

  nextTheme(): void {
    this.setTheme(this.theme === 'system' ? 'light' : this.theme === 'light' ? 'dark' : 'system');
  }

  /** Lists the asks of a view that was opened. */
  enter(keys: string[]): void {
    this.listed = keys;
    if (!keys.includes(this.marked)) this.marked = keys[0] ?? '';
  }

  /** Lists the asks of a view anew. If the marked one is gone, none is marked: the next was not looked at. */
  follow(keys: string[]): void {
    if (!this.listed.every((key, at) => keys[at] === key)) this.moves++;
    this.listed = keys;
    if (keys.length === 0) this.marked = '';
    else if (this.marked === '') this.marked = keys[0]!;
  }

  /** Returns the ask to go on with after this one. */
  after(key: string): string {
    const at = this.listed.indexOf(key);
    return this.listed[at + 1] ?? this.listed[at - 1] ?? '';
  }

  tell(text: string, tone: Notice['tone'] = 'plain'): void {
    const id = this.#next++;
    this.notices = [...this.notices.slice(-2), { id, text, tone }];
    setTimeout(() => this.dismiss(id), tone === 'bad' ? 10_000 : 5000);
  }

  dismiss(id: number): void {
    this.notices = this.notices.filter((notice) => notice.id !== id);
  }
}

export const ui = new Ui();
