// Shows the cards that match; the page says everything without it.
"use strict";
{
  const tools = document.getElementById("filter");
  const text = tools.querySelector("input"), [paper, verdict] = tools.querySelectorAll("select");
  const said = tools.querySelector("output"), cards = [...document.querySelectorAll(".figure-card")];
  const filter = () => {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean), asked = verdict.value.replaceAll(" ", "-");
    let shown = 0;
    for (const card of cards) {
      const inside = card.textContent.toLowerCase();
      card.hidden = !words.every((word) => inside.includes(word))
        || (paper.value !== "" && card.dataset.paper !== paper.value)
        || (asked !== "" && !card.dataset.verdicts.split(" ").includes(asked));
      shown += card.hidden ? 0 : 1;
      for (const claim of card.querySelectorAll("[data-verdict]"))
        claim.hidden = asked !== "" && claim.dataset.verdict !== asked;
    }
    for (const part of document.querySelectorAll("section.paper"))
      part.hidden = ![...part.querySelectorAll(".figure-card")].some((card) => !card.hidden);
    said.value = `${shown} of ${cards.length} figures`;
  };
  text.addEventListener("input", filter);
  paper.addEventListener("change", filter);
  verdict.addEventListener("change", filter);
  filter();
}
