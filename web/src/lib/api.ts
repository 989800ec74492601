// Requests to coop. Everything goes through here, so that one place knows about being logged out.

import { parse } from './visible';

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

/** Called when coop wants a token. */
let onLoggedOut: () => void = () => {};

export function whenLoggedOut(call: () => void): void {
  onLoggedOut = call;
}

const NAME = 'coop-name';

/** In whose name answers are given; it is written down, nothing more. */
export function myName(): string {
  try {
    return localStorage.getItem(NAME) || 'the page';
  } catch {
    return 'the page';
  }
}

export function setMyName(name: string): void {
  try {
    localStorage.setItem(NAME, name.replace(/[^\x20-\x7e]/g, '').slice(0, 60));
  } catch {
    // Not kept, then.
  }
}

export async function request(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const init: RequestInit = { method, headers: { 'x-coop-by': myName() }, credentials: 'same-origin' };
  if (signal) init.signal = signal;
  if (body !== undefined) init.body = JSON.stringify(body);
  const response = await fetch(`/api/v1/${path}`, init);
  if (response.ok) return response;
  if (response.status === 401 && path !== 'login') onLoggedOut();
  throw await failure(response);
}

async function failure(response: Response): Promise<ApiError> {
  try {
    const body = parse<{ error?: { code?: string; message?: string } }>(await response.text());
    return new ApiError(response.status, body.error?.code ?? 'INTERNAL', body.error?.message ?? response.statusText);
  } catch {
    return new ApiError(response.status, 'INTERNAL', response.statusText || `HTTP ${response.status}`);
  }
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return parse<T>(await (await request('GET', path, undefined, signal)).text());
}

export async function post<T>(path: string, body: unknown = {}): Promise<T> {
  return parse<T>(await (await request('POST', path, body)).text());
}

export async function remove(path: string): Promise<void> {
  await request('DELETE', path);
}

export function said(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
