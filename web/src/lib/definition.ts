export interface Wanted {
  name: string;
  driver: string;
  command: string;
  prompt: string;
  isolate: boolean;
  /** Only with `isolate`. */
  trust: boolean;
  sandbox: boolean;
}

/** Writes the `coop.toml` of one agent. JSON's strings are TOML's too. */
export function definition(wanted: Wanted): string {
  const lines = [`[agents.${JSON.stringify(wanted.name)}]`, `driver = ${JSON.stringify(wanted.driver)}`];
  // Of a program without a driver nobody knows when it is idle, so nobody can be called then.
  if (wanted.driver !== 'unknown') lines.push('kind = "crew"');
  const words = wanted.command.trim().split(/\s+/).filter(Boolean);
  if (words.length > 0) lines.push(`command = [${words.map((word) => JSON.stringify(word)).join(', ')}]`);
  if (wanted.prompt.trim() !== '') lines.push(`prompt = ${JSON.stringify(wanted.prompt)}`);
  if (wanted.isolate) lines.push('isolate = true');
  if (wanted.isolate && wanted.trust) lines.push('trust = true');
  if (wanted.sandbox) lines.push('sandbox = true');
  return `${lines.join('\n')}\n`;
}
