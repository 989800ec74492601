export async function liveCases() { return { cases: [], missing: [], broken: [] }; }
