// The parts of a page that come from the event logs: the workers' time, the
// members over time, and what happened.
//
// Pure.

#ifndef RINGLET_TOOLS_RINGLET_REPORT_EVENTS_HTML_H_
#define RINGLET_TOOLS_RINGLET_REPORT_EVENTS_HTML_H_

#include <string>
#include <vector>

#include "event_history.h"
#include "html.h"

namespace ringlet {

std::vector<KeyFigure> MakeTiles(const EventHistory& events);
// Each worker's address and end, and what it trained.
std::string WorkersHtml(const EventHistory& events);
std::string StepPartsHtml(const EventHistory& events);
std::string MembersHtml(const EventHistory& events);
std::string WaitsHtml(const EventHistory& events);
std::string SavesHtml(const EventHistory& events);
std::string EventListHtml(const EventHistory& events);
// The memory that the workers planned for their model, and what they took.
std::string PlannedMemoryHtml(const EventHistory& events);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_REPORT_EVENTS_HTML_H_
