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
  /** Which ask of the inbox the keys mean. */
  selected = $state(0);
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
