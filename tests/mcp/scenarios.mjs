// Which scenarios of the suite apply to a server of coop's tools. One that is in neither list fails the run.

export const APPLY = [
  'server-initialize',
  'server-stateless',
  'ping',
  'tools-list',
  'dns-rebinding-protection',
  'caching',
  'http-header-validation',
];

const TOOL = 'it calls a tool that only a server made for this suite has';
const RESOURCES = 'coop has no resources, and says so';
const PROMPTS = 'coop has no prompts, and says so';
const TASKS = 'coop has no tasks: an answer takes as long as it takes, up to 50 s, and can be asked for again';
const INPUT = 'no tool of coop asks its caller for more';
const LOGGING = 'coop sends no log to its callers';
const HEADERS = 'no tool of coop takes an argument from a header';

const SESSIONS = 'coop keeps no sessions: who asks says with every request who it is';

export const WHY_NOT = {
  'server-session-lifecycle': SESSIONS,
  'server-sse-polling': SESSIONS,
  'server-sse-multiple-streams': SESSIONS,
  'logging-set-level': LOGGING,
  'completion-complete': PROMPTS,
  'tools-call-simple-text': TOOL,
  'tools-call-image': TOOL,
  'tools-call-audio': TOOL,
  'tools-call-embedded-resource': TOOL,
  'tools-call-mixed-content': TOOL,
  'tools-call-with-logging': TOOL,
  'tools-call-error': TOOL,
  'tools-call-with-progress': TOOL,
  'tools-call-sampling': TOOL,
  'tools-call-elicitation': TOOL,
  'json-schema-2020-12': TOOL,
  'elicitation-sep1034-defaults': TOOL,
  'elicitation-sep1330-enums': TOOL,
  'resources-list': RESOURCES,
  'resources-read-text': RESOURCES,
  'resources-read-binary': RESOURCES,
  'resources-templates-read': RESOURCES,
  'resources-subscribe': RESOURCES,
  'resources-unsubscribe': RESOURCES,
  'sep-2164-resource-not-found': RESOURCES,
  'sep-2640-skills-directory': RESOURCES,
  'sep-2640-skills-enumeration': RESOURCES,
  'sep-2640-skills-manifest': RESOURCES,
  'prompts-list': PROMPTS,
  'prompts-get-simple': PROMPTS,
  'prompts-get-with-args': PROMPTS,
  'prompts-get-embedded-resource': PROMPTS,
  'prompts-get-with-image': PROMPTS,
  'http-custom-header-server-validation': HEADERS,
  'tasks-lifecycle': TASKS,
  'tasks-capability-negotiation': TASKS,
  'tasks-wire-fields': TASKS,
  'tasks-request-state-removal': TASKS,
  'tasks-mrtr-input': TASKS,
  'tasks-request-headers': TASKS,
  'tasks-dispatch-and-envelope': TASKS,
  'tasks-status-notifications': TASKS,
  'tasks-required-task-error': TASKS,
  'tasks-mrtr-composition': TASKS,
  'input-required-result-basic-elicitation': INPUT,
  'input-required-result-basic-sampling': INPUT,
  'input-required-result-basic-list-roots': INPUT,
  'input-required-result-request-state': INPUT,
  'input-required-result-multiple-input-requests': INPUT,
  'input-required-result-multi-round': INPUT,
  'input-required-result-missing-input-response': INPUT,
  'input-required-result-non-tool-request': INPUT,
  'input-required-result-result-type': INPUT,
  'input-required-result-unsupported-methods': INPUT,
  'input-required-result-tampered-state': INPUT,
  'input-required-result-capability-check': INPUT,
  'input-required-result-ignore-extra-params': INPUT,
  'input-required-result-validate-input': INPUT,
};

/** Checks within scenarios that apply. */
export const NO_SUCH_CHECK = {
  'sep-2549-prompts-list-caching-hints': PROMPTS,
  'sep-2549-resources-list-caching-hints': RESOURCES,
  'sep-2549-resources-templates-list-caching-hints': RESOURCES,
  'sep-2575-server-rejects-undeclared-capability': TOOL,
  'sep-2575-missing-capability-http-400': TOOL,
  'sep-2575-http-server-no-independent-requests-on-stream': TOOL,
  'sep-2575-server-no-log-without-loglevel': TOOL,
};
