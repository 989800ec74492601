import { parse, type Place } from './place';

class Route {
  place = $state<Place>(parse(location.hash));

  constructor() {
    addEventListener('hashchange', () => {
      this.place = parse(location.hash);
    });
  }

  go(hash: string): void {
    location.hash = hash;
  }
}

export const route = new Route();
