// Colours of the map and of what moves on it, for dark and for light.

const DARK = {
  water: "#0a1220", land: "#1a2840", border: "#33445f", label: "#8b9bb4", halo: "#0f1928",
  subscription: "#2dd4bf", mine: "#fb7185", object: "#c4b5fd", message: "#93b4ff", match: "#ffc453", draft: "#fb7185",
  caption: "rgba(10, 18, 31, .9)", captionText: "#f3f6fb", glow: "lighter",
};
const LIGHT = {
  water: "#cfdfea", land: "#f8f6f1", border: "#d5cfc2", label: "#6a6f7a", halo: "#ffffff",
  subscription: "#0d8a80", mine: "#d81b60", object: "#6d3fc0", message: "#3d5fc4", match: "#c96a00", draft: "#d81b60",
  caption: "rgba(255, 255, 255, .94)", captionText: "#1a2333", glow: "source-over",
};

const root = document.documentElement; // `theme.js` keeps its `data-theme`
export const still = matchMedia("(prefers-reduced-motion: reduce)");
export const isDark = () => root.dataset.theme === "dark";
export const palette = () => (isDark() ? DARK : LIGHT);
export const onPalette = (change) => new MutationObserver(change).observe(root, { attributeFilter: ["data-theme"] });

export function choosePalette(theme) {
  localStorage.setItem("nearcast-theme", theme);
  root.dataset.theme = theme;
}
