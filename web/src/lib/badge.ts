// The number of open asks in the title and on the icon, for tabs that are not in front.

let shown = -1;

export function badge(count: number): void {
  if (count === shown) return;
  shown = count;
  document.title = count > 0 ? `(${count}) coop` : 'coop';
  const link = document.querySelector<HTMLLinkElement>('link[rel=icon]');
  if (!link) return;
  if (count === 0) {
    link.href = '/favicon.svg';
    link.type = 'image/svg+xml';
    return;
  }
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = 64;
  const draw = canvas.getContext('2d');
  if (!draw) return;
  draw.fillStyle = '#1f6f5c';
  draw.beginPath();
  draw.roundRect(0, 0, 64, 64, 16);
  draw.fill();
  draw.fillStyle = '#d9480f';
  draw.beginPath();
  draw.arc(38, 38, 26, 0, 2 * Math.PI);
  draw.fill();
  draw.fillStyle = '#fff';
  draw.font = 'bold 36px system-ui, sans-serif';
  draw.textAlign = 'center';
  draw.textBaseline = 'middle';
  draw.fillText(count > 9 ? '9+' : String(count), 38, 41);
  link.type = 'image/png';
  link.href = canvas.toDataURL('image/png');
}
