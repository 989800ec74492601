import type { Token, Tokens } from 'marked';

/** The highest number of a list for which there is room beside it. */
const HIGHEST = 999;

/** Whether something is written in the token that markdown does not show, as the words after a fence or a link's title. */
export function leavesOut(token: Token): boolean {
  switch (token.type) {
    case 'def':
    // Cells that are too many.
    case 'table':
    case 'escape':
      return true;
    case 'code':
      return Boolean(token.lang);
    case 'link':
      return token.raw !== token.href && token.raw !== `<${token.href}>`;
    case 'list':
      return token.ordered && !isInOrder(token as Tokens.List);
    default:
      return false;
  }
}

/** Whether the items have the numbers that are shown, which count from the first. */
function isInOrder({ start, items }: Tokens.List): boolean {
  const first = Number(start);
  return first + items.length - 1 <= HIGHEST && items.every((item, at) => Number.parseInt(item.raw, 10) === first + at);
}

/** Whether the token stands on lines of its own. */
export function isBlock(token: Token): boolean {
  return ['def', 'table', 'code', 'list', 'blockquote'].includes(token.type);
}
