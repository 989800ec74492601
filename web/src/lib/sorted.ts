import { STATES } from './state';
import type { Agent } from './store.svelte';
import type { Project, StateName } from './types';

/** Where an agent works: in a workspace of coop's, in a project's own folder, or in any other folder. */
export interface Placed {
  project: string;
  /** Nothing for a project's own folder. */
  workspace: string;
  /** The project's id, if it is one of coop's. */
  id?: string;
}

export interface WorkspaceGroup extends Placed {
  key: string;
  /** Whether it is a workspace of coop's, whose agents can be put to sleep. */
  own: boolean;
  asleep: boolean;
  agents: Agent[];
}

export interface ProjectGroup {
  key: string;
  project: string;
  error: string;
  workspaces: WorkspaceGroup[];
}

/** Made once: it is what sorting costs. */
const NAMES = new Intl.Collator(undefined, { numeric: true });

/** Those that ask come first, then by what they do, then by name. */
export function sorted(agents: Agent[]): Agent[] {
  return [...agents].sort((a, b) => STATES[a.state].rank - STATES[b.state].rank || NAMES.compare(a.id, b.id));
}

const isIn = (folder: string, path: string) => folder === path || folder.startsWith(`${path}/`);

/** Finds the project and workspace of a folder; one that is in none is named by its path. */
export function placed(folder: string | null, projects: Project[]): Placed {
  const where = folder ?? '';
  for (const project of projects) {
    const workspace = project.workspaces?.find(({ path }) => isIn(where, path));
    if (workspace) return { project: project.name, workspace: workspace.name, id: project.id };
  }
  const project = projects.find(({ path }) => isIn(where, path));
  if (project) return { project: project.name, workspace: '', id: project.id };
  const parts = where.split('/').filter(Boolean);
  return { project: parts[parts.length - 2] ?? '', workspace: parts[parts.length - 1] ?? 'here' };
}

/** Groups by project and workspace. A group is as important as its first agent; those without any come last. */
export function grouped(agents: Agent[], filter: string, projects: Project[]): ProjectGroup[] {
  const wanted = filter.trim().toLowerCase();
  const groups = new Map<string, ProjectGroup>();
  const group = (place: Placed): WorkspaceGroup => {
    const key = place.id ?? `folder ${place.project}`;
    const of = groups.get(key) ?? { key, project: place.project, error: '', workspaces: [] };
    groups.set(key, of);
    const known = of.workspaces.find((one) => one.workspace === place.workspace);
    if (known) return known;
    const made = { ...place, key: place.workspace, own: false, asleep: false, agents: [] };
    of.workspaces.push(made);
    return made;
  };
  for (const agent of sorted(agents)) {
    const place = placed(agent.folder, projects);
    const text = `${agent.id} ${agent.name} ${agent.folder ?? ''} ${place.project} ${place.workspace} ${STATES[agent.state].word} ${agent.driver}`;
    if (!wanted || text.toLowerCase().includes(wanted)) group(place).agents.push(agent);
  }
  for (const project of projects) {
    for (const { name, metadata } of project.workspaces ?? []) {
      const place = { project: project.name, workspace: name, id: project.id };
      const isThere = groups.get(project.id)?.workspaces.some((one) => one.workspace === name);
      // What has no agent is not what one filters for.
      if (!isThere && wanted && !`${project.name} ${name}`.toLowerCase().includes(wanted)) continue;
      Object.assign(group(place), { own: true, asleep: 'hibernated' in metadata });
    }
    const of = groups.get(project.id);
    if (of) of.error = project.error ?? '';
  }
  return [...groups.values()];
}

/** What the agents of a project do, in a few words. */
export function summary(group: ProjectGroup): string {
  const counts = new Map<StateName, number>();
  for (const { agents } of group.workspaces) for (const { state } of agents) counts.set(state, (counts.get(state) ?? 0) + 1);
  const known = [...counts].filter(([state]) => state !== 'exited').sort(([a], [b]) => STATES[a].rank - STATES[b].rank);
  return known.map(([state, count]) => `${count} ${STATES[state].word}`).join(' · ');
}
