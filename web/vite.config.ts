import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  plugins: [svelte()],
  build: {
    // The folder above it is in the repository, so that cargo can watch it.
    outDir: 'dist/page',
    emptyOutDir: true,
    target: 'es2022',
    // Everything is a file with a hashed name: the policy of the page lets nothing else be loaded.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  test: { include: ['test/**/*.test.ts'] },
});
