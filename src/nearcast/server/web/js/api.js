// The server's API, as far as the map needs it. Errors are RFC 9457 problems.

const KEY = "nearcast-key";

export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export function headers(extra = {}) {
  const key = sessionStorage.getItem(KEY);
  return key ? { ...extra, Authorization: `Bearer ${key}` } : extra;
}

export function keepKey(key) {
  sessionStorage.setItem(KEY, key);
}

async function call(method, path, body, signal) {
  try {
    const answer = await fetch(path, {
      method,
      signal,
      headers: headers(body === undefined ? {} : { "Content-Type": "application/json" }),
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (answer.ok) return answer.status === 204 ? null : await answer.json();
    const problem = await answer.json().catch(() => ({}));
    throw new Problem(answer.status, problem.detail ?? problem.title ?? `status ${answer.status}`);
  } catch (error) {
    if (error instanceof Problem || error.name === "AbortError") throw error;
    throw new Problem(0, "the server does not answer");
  }
}

const one = (id) => `v1/subscriptions/${encodeURIComponent(id)}`;
const several = (name, values) => values.map((value) => `${name}=${encodeURIComponent(value)}`).join("&");

export const api = {
  ready: () => call("GET", "readyz"),
  check: (query, top, signal) => call("POST", "v1/queries", top ? { query, top } : { query }, signal),
  subscribe: (subscription) => call("POST", "v1/subscriptions", subscription),
  publish: (message) => call("POST", "v1/messages", message),
  remove: (id) => call("DELETE", one(id)),
  get: (id) => call("GET", one(id)),
  results: (id) => call("GET", `${one(id)}/results`),
  overview: (box, signal) => call("GET", `v1/map/overview?bbox=${box}`, undefined, signal),
  some: (ids) => call("GET", `v1/map/subscriptions?${several("id", ids)}`),
  messages: (ids) => call("GET", `v1/map/messages?${several("id", ids)}`),
  page: (box, after, signal) =>
    call("GET", `v1/subscriptions?bbox=${box}&limit=1000${after ? `&after=${encodeURIComponent(after)}` : ""}`, undefined, signal),
  pipeline: () => call("GET", "v1/map/pipeline"),
  beside: () => call("GET", "v1/demo/beside"),
  live: (box, ids) => `v1/live?bbox=${box}${ids.length ? `&${several("subscription", ids)}` : ""}`,
  updates: (ids) => `v1/updates?${several("subscription", ids)}`,
};
