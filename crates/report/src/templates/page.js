(() => {
  const tip = document.getElementById("tip");
  const textOf = (node) => {
    const holder = node.closest("[data-tip]");
    if (holder) return holder.dataset.tip;
    const part = node.closest("svg path, svg g.series, svg rect.target");
    const title = part && (part.querySelector(":scope > title") || (part.closest("g.series") || part).querySelector(":scope > title"));
    return title ? title.textContent : "";
  };
  // Native tooltips of titles would cover ours; their text is kept for screen readers as labels.
  document.querySelectorAll("svg g.series title").forEach((title) => {
    title.parentNode.dataset.tip = title.textContent;
    title.parentNode.setAttribute("aria-label", title.textContent);
    title.remove();
  });
  document.addEventListener("pointerover", (event) => {
    if (!(event.target instanceof Element)) return;
    const text = textOf(event.target);
    tip.hidden = !text;
    tip.textContent = text;
    const series = event.target.closest("g.series");
    document.querySelectorAll("svg.picking").forEach((svg) => {
      svg.classList.remove("picking");
      svg.querySelectorAll(".picked").forEach((other) => other.classList.remove("picked"));
    });
    if (series) {
      series.classList.add("picked");
      series.ownerSVGElement.classList.add("picking");
    }
  });
  document.addEventListener("pointermove", (event) => {
    if (tip.hidden) return;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(8, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + "px";
    tip.style.top = (event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 18) + "px";
  });
  // A link to a folded section unfolds it.
  const unfold = () => {
    const target = location.hash.length > 1 && !location.hash.includes("=") && document.getElementById(location.hash.slice(1));
    if (target instanceof HTMLDetailsElement) { target.open = true; target.scrollIntoView(); }
  };
  addEventListener("hashchange", unfold);
  unfold();
  // Each chart as a file: SVG with its colours written into it, and PDF by the browser's own printing of it alone.
  const alone = (svg) => {
    const copy = svg.cloneNode(true);
    const from = [svg, ...svg.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
    const names = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "stroke-linejoin", "opacity", "font-size", "font-weight", "font-family", "text-anchor", "paint-order"];
    from.forEach((node, place) => {
      const style = getComputedStyle(node);
      for (const name of names) to[place].setAttribute(name, style.getPropertyValue(name));
      to[place].removeAttribute("class");
    });
    const [, , wide, high] = (svg.getAttribute("viewBox") || "0 0 600 400").split(" ");
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("width", wide);
    copy.setAttribute("height", high);
    return copy;
  };
  const name = (figure) => (figure.querySelector("figcaption")?.firstChild?.textContent || "figure").replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").toLowerCase();
  const save = (figure) => {
    const text = new XMLSerializer().serializeToString(alone(figure.querySelector("svg")));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    link.download = name(figure) + ".svg";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const print_alone = (figure) => {
    const sheet = document.createElement("div"), title = document.title;
    sheet.className = "sheet";
    sheet.append(figure.cloneNode(true));
    document.body.append(sheet);
    document.body.classList.add("one");
    document.title = name(figure);
    addEventListener("afterprint", () => { document.body.classList.remove("one"); sheet.remove(); document.title = title; }, { once: true });
    window.print();
  };
  document.querySelectorAll("figure").forEach((figure) => {
    const caption = figure.querySelector("figcaption");
    if (!caption || !figure.querySelector(":scope > svg")) return;
    const buttons = document.createElement("span");
    buttons.className = "take";
    for (const [word, what, act] of [["SVG", "Save this figure as SVG", save], ["PDF", "Print this figure alone, into a PDF", print_alone]]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = word;
      button.title = what;
      button.addEventListener("click", () => act(figure));
      buttons.append(button);
    }
    caption.append(buttons);
  });
  // Everything is printed, folded or not.
  let folded = [];
  addEventListener("beforeprint", () => { folded = [...document.querySelectorAll("details:not([open])")]; folded.forEach((part) => { part.open = true; }); });
  addEventListener("afterprint", () => folded.forEach((part) => { part.open = false; }));
})();
