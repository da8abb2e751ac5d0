// The texts whose contrast with what is behind them is below 4.5 (WCAG 2.2, 1.4.3).
(() => {
  const channels = (color) => color.match(/[\d.]+/g).map(Number);
  const linear = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = channels(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const hasText = (it) => [...it.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  return [...document.body.querySelectorAll("*")]
    .filter((it) => it.checkVisibility() && (hasText(it) || it.matches("input, select, textarea")))
    .map((it) => {
      const style = getComputedStyle(it);
      const ink = it instanceof SVGElement ? style.fill : style.color;
      const [a, b] = [light(channels(ink)), light(behind(it))].sort((x, y) => y - x);
      return [(a + 0.05) / (b + 0.05), it.tagName, it.className?.baseVal ?? it.className, it.textContent.slice(0, 40)];
    })
    .filter(([contrast]) => contrast < 4.5);
})()
