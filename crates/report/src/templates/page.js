(() => {
  const tip = document.getElementById("tip");
  const textOf = (node) => node.closest("[data-tip]")?.dataset.tip ?? "";
  // Native tooltips of titles would cover ours; their text is kept for screen readers as labels.
  document.querySelectorAll("svg g.series title").forEach((title) => {
    title.parentNode.dataset.tip = title.textContent;
    title.parentNode.setAttribute("aria-label", title.textContent);
    title.remove();
  });
  // The late messages at a place of their drawing, listed on a click. Arrow keys go on in the order of time.
  document.querySelectorAll("figure.late").forEach((figure) => {
    const list = figure.querySelector(".messages"), corner = (place) => place.querySelector("rect");
    const at = (place, axis) => Number(corner(place).getAttribute(axis));
    const places = [...figure.querySelectorAll("g.series > g")].sort((a, b) => at(a, "x") - at(b, "x") || at(b, "y") - at(a, "y"));
    const show = (chosen) => {
      places.forEach((place) => {
        place.tabIndex = place === chosen ? 0 : -1;
        place.classList.toggle("chosen", place === chosen);
      });
      const [head, ...lines] = chosen.dataset.tip.split("\n");
      const items = document.createElement("ul");
      items.append(...lines.map((line) => Object.assign(document.createElement("li"), { textContent: line })));
      list.replaceChildren(Object.assign(document.createElement("b"), { textContent: head }), items);
    };
    figure.querySelector("svg").setAttribute("role", "group");
    places.forEach((place, number) => {
      place.setAttribute("role", "button");
      place.tabIndex = number ? -1 : 0;
      place.addEventListener("click", () => place.focus());
      place.addEventListener("focus", () => show(place));
      place.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1, Home: -number, End: places.length - 1 - number }[event.key];
        if (step === undefined) return;
        event.preventDefault();
        places[number + step]?.focus();
      });
    });
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
  // Each figure as a file: SVG with its colours written into it, and PDF by the browser's own printing of it alone. A figure is
  // an SVG, an SVG over a canvas, or an image whose data are an SVG.
  const drawn = (figure) => figure.querySelector(":scope > svg, :scope > .wide > svg, :scope > .hm-stage > svg");
  const element = (name, attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };
  const alone = (svg) => {
    const copy = svg.cloneNode(true);
    const from = [svg, ...svg.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
    const names = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "stroke-linejoin", "opacity", "font-size", "font-weight", "font-family", "text-anchor", "paint-order"];
    from.forEach((node, place) => {
      const style = getComputedStyle(node);
      for (const name of names) to[place].setAttribute(name, style.getPropertyValue(name));
      to[place].removeAttribute("class");
    });
    const [, , width, height] = (svg.getAttribute("viewBox") || "0 0 600 400").split(" ");
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    const canvas = svg.previousElementSibling;
    if (canvas instanceof HTMLCanvasElement) {
      const { left, top, width: wide, height: high } = canvas.style;
      copy.prepend(element("image", { x: left, y: top, width: wide, height: high, preserveAspectRatio: "none", style: "image-rendering:pixelated", href: canvas.toDataURL() }));
      copy.prepend(element("rect", { x: left, y: top, width: wide, height: high, fill: getComputedStyle(canvas).backgroundColor }));
    }
    copy.prepend(element("rect", { width: "100%", height: "100%", fill: getComputedStyle(document.body).backgroundColor }));
    return copy;
  };
  const name = (figure) => figure.querySelector("figcaption").textContent.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").toLowerCase() || "figure";
  const save = (figure) => {
    const svg = drawn(figure), link = document.createElement("a");
    link.href = svg ? URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(alone(svg))], { type: "image/svg+xml" })) : figure.querySelector("img").src;
    link.download = name(figure) + ".svg";
    link.click();
    if (svg) setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const printAlone = (figure) => {
    const sheet = document.createElement("div"), title = document.title, copy = figure.cloneNode(true);
    // A copied canvas is empty.
    const stage = copy.querySelector(".hm-stage");
    if (stage) copy.replaceChildren(copy.querySelector("figcaption"), alone(drawn(figure)));
    sheet.className = "sheet";
    sheet.append(copy);
    document.body.append(sheet);
    document.body.classList.add("one");
    document.title = name(figure);
    addEventListener("afterprint", () => { document.body.classList.remove("one"); sheet.remove(); document.title = title; }, { once: true });
    window.print();
  };
  const offer = (figure) => {
    const buttons = document.createElement("span");
    buttons.className = "take";
    for (const [word, what, act] of [["SVG", "Save this figure as SVG", save], ["PDF", "Print this figure alone, into a PDF", printAlone]]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = word;
      button.title = what;
      button.addEventListener("click", () => act(figure));
      buttons.append(button);
    }
    figure.prepend(buttons);
  };
  document.querySelectorAll("figure").forEach(offer);
  // The viewer of heat maps makes its figure later.
  document.addEventListener("figure", (event) => offer(event.target));
  // Everything is printed, folded or not.
  let folded = [];
  addEventListener("beforeprint", () => { folded = [...document.querySelectorAll("details:not([open])")]; folded.forEach((part) => { part.open = true; }); });
  addEventListener("afterprint", () => folded.forEach((part) => { part.open = false; }));
})();
