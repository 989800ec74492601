// An agent's story to keep: as Markdown for people, as JSON for programs.

import type { Row } from './timeline';

export function asMarkdown(agent: string, rows: Row[]): string {
  const parts = [`# ${agent}`];
  for (const row of rows) {
    const at = new Date(row.at).toISOString();
    switch (row.kind) {
      case 'prompt':
        parts.push(`## ${at}\n\n${quoted(row.text)}`);
        break;
      case 'message':
        parts.push(row.role === 'user' ? quoted(row.text) : row.text);
        break;
      case 'tool':
        parts.push(`**${row.tool}** ${row.phase}${row.duration === undefined ? '' : ` in ${row.duration} ms`}\n\n${fenced(row.input)}${row.output === undefined ? '' : `\n\n${fenced(row.output)}`}`);
        break;
      case 'ask':
        parts.push(`**Asked** (${row.ask.kind}) ${row.ask.preview}\n\n${row.outcome ? `${row.outcome.what}: ${row.outcome.text}${row.outcome.by ? `, by ${row.outcome.by}` : ''}` : 'open'}`);
        break;
      case 'artifact':
        parts.push(`Wrote \`${row.path}\``);
        break;
      case 'fault':
        parts.push(`**Fault** (${row.fault.kind}) ${row.fault.message}`);
        break;
      case 'delivery':
        break;
      case 'note':
        parts.push(`*${row.text}*`);
        break;
    }
  }
  return `${parts.join('\n\n')}\n`;
}

export function asJson(agent: string, rows: Row[]): string {
  return `${JSON.stringify({ agent, rows: rows.map(({ key: _, at, ...row }) => ({ at: new Date(at).toISOString(), ...row })) }, null, 2)}\n`;
}

function quoted(text: string): string {
  return text.split('\n').map((line) => `> ${line}`).join('\n');
}

/** A fence that nothing inside can end. */
function fenced(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value, null, 2);
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map((match) => match[0].length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}\n${text}\n${fence}`;
}

/** Hands a text to whoever looks, as a file. */
export function download(name: string, text: string, type: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
