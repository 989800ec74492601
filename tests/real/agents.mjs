// The four agents: where their programs are, what spares us their dialogs, how they find the model.

import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Where npm has put them: the pinned versions here, or others elsewhere. */
const MODULES = process.env.COOP_REAL_MODULES ? `${resolve(process.env.COOP_REAL_MODULES)}/` : fileURLToPath(new URL('node_modules/', import.meta.url));
const PLATFORM = `${process.platform}-${process.arch}`;
/** The package's own `claude` is a stub until its install script has run. */
const CLAUDE = join(MODULES, `@anthropic-ai/claude-code-${PLATFORM}/claude`);
const GEMINI = join(MODULES, '.bin/gemini');
const OPENCODE = join(MODULES, `opencode-${PLATFORM}/bin/opencode`);
/** The package's own `codex` is a script that needs Node. */
const TRIPLES = { 'linux-x64': 'x86_64-unknown-linux-musl', 'linux-arm64': 'aarch64-unknown-linux-musl' };
const CODEX = join(MODULES, `@openai/codex-${PLATFORM}/vendor/${TRIPLES[PLATFORM]}/bin/codex`);
const KEY = 'sk-dummy-key-for-a-model-on-loopback';

/**
 * `prompt` is on the screen once the agent takes input. `prepare` fills `home` for work in `work` with the model at
 * `url` and returns how to run the agent.
 */
export const AGENTS = [
  { name: 'claude', program: CLAUDE, prompt: /^❯/m, prepare: claude },
  { name: 'codex', program: CODEX, prompt: /^› Ask Codex/m, prepare: codex },
  { name: 'gemini', program: GEMINI, prompt: /^ > +Type your message/m, prepare: gemini },
  { name: 'opencode', program: OPENCODE, prompt: /┃ +Ask anything/, prepare: opencode },
];

function claude({ home, work, url }) {
  write(join(home, '.claude.json'), JSON.stringify({
    hasCompletedOnboarding: true,
    theme: 'dark',
    customApiKeyResponses: { approved: [KEY.slice(-20)], rejected: [] },
    projects: { [work]: { hasTrustDialogAccepted: true, hasCompletedProjectOnboarding: true } },
  }));
  return {
    argv: [CLAUDE],
    env: {
      ANTHROPIC_API_KEY: KEY,
      ANTHROPIC_BASE_URL: url,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL: '1',
      DISABLE_AUTOUPDATER: '1',
    },
  };
}

function codex({ home, work, url }) {
  write(join(home, '.codex/config.toml'), `
    model = "gpt-5.5"
    model_provider = "fixed"
    check_for_update_on_startup = false
    analytics.enabled = false
    features = { apps = false, plugins = false }
    tui = { screen_reader_detection_done = true, show_tooltips = false }
    notice.model_migrations = { "gpt-5.5" = "gpt-6-sol" }
    projects = { "${work}" = { trust_level = "trusted" } }
    [model_providers.fixed]
    name = "fixed"
    base_url = "${url}/v1"
    env_key = "MODEL_KEY"
    wire_api = "responses"
  `);
  // Without the flag a daemon stays behind.
  return { argv: [join(MODULES, '.bin/codex'), '--no-daemon'], env: { MODEL_KEY: KEY } };
}

function gemini({ home, work, url }) {
  write(join(home, '.gemini/trustedFolders.json'), JSON.stringify({ [work]: 'TRUST_FOLDER' }));
  write(join(home, '.gemini/settings.json'), JSON.stringify({
    security: { auth: { selectedType: 'gemini-api-key' } },
    privacy: { usageStatisticsEnabled: false },
    general: { enableAutoUpdate: false, enableAutoUpdateNotification: false },
    ide: { hasSeenNudge: true },
  }));
  return {
    // A named model, for otherwise another model is asked which one to take.
    argv: [GEMINI, '-m', 'gemini-2.5-pro'],
    env: { GEMINI_API_KEY: KEY, GOOGLE_GEMINI_BASE_URL: url },
  };
}

function opencode({ home, url }) {
  write(join(home, '.config/opencode/opencode.json'), JSON.stringify({
    autoupdate: false,
    share: 'disabled',
    model: 'fixed/fixed',
    small_model: 'fixed/fixed',
    provider: {
      fixed: {
        npm: '@ai-sdk/openai-compatible',
        options: { baseURL: `${url}/v1`, apiKey: KEY },
        models: { fixed: { limit: { context: 200000, output: 8000 } } },
      },
    },
  }));
  return { argv: [OPENCODE], env: { OPENCODE_DISABLE_MODELS_FETCH: '1' } };
}

function write(path, text) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}
