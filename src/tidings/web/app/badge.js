// The count of unread messages where the browser shows it: in the title, and as a mark on the tab's icon.

import { badgeOf } from './parts/format.js';

const SIZE_PX = 64;

export class TabBadge {
  constructor(name = 'Tidings') {
    this.name = name;
    this.count = null;
    this._link = document.querySelector('link[rel="icon"]');
    this._plain = this._link.href;
    this._image = null;
  }

  show(count) {
    if (count === this.count) return;
    this.count = count;
    document.title = count > 0 ? `(${badgeOf(count)}) ${this.name}` : this.name;
    this._draw();
  }

  async _draw() {
    const count = this.count;
    if (!count) {
      this._link.href = this._plain;
      return;
    }
    const image = await this._picture();
    if (image && count === this.count) this._link.href = drawn(image, badgeOf(count));
  }

  _picture() {
    this._image ??= new Promise((resolve) => {
      const image = new Image(SIZE_PX, SIZE_PX);
      image.onload = () => resolve(image);
      image.onerror = () => resolve(null);
      image.src = this._plain;
    });
    return this._image;
  }
}

/** Draw the icon with the count in its lower corner. A count too small to read is still a coloured dot. */
function drawn(image, text) {
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = SIZE_PX;
  const pen = canvas.getContext('2d');
  pen.drawImage(image, 0, 0, SIZE_PX, SIZE_PX);
  pen.font = `bold ${text.length > 2 ? 24 : 32}px sans-serif`;
  const width = Math.max(38, pen.measureText(text).width + 16);
  pen.fillStyle = '#cf3a22';
  pen.beginPath();
  pen.roundRect(SIZE_PX - width, 26, width, 38, 19);
  pen.fill();
  pen.fillStyle = '#ffffff';
  pen.textAlign = 'center';
  pen.textBaseline = 'middle';
  pen.fillText(text, SIZE_PX - width / 2, 46);
  return canvas.toDataURL('image/png');
}
