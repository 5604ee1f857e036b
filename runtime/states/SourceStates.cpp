#include "runtime/states/SourceStates.h"

#include <map>
#include <set>
#include <string_view>
#include <utility>

using namespace llmc;
using namespace llmc::runtime;
using planfile::StateRole;

SourceStates::SourceStates(const planfile::ProgramT &program)
    : bySource_(program.sources.size()) {
  for (uint32_t stage = 0; stage < program.stages.size(); ++stage) {
    const auto &states = program.stages[stage]->states;
    // Maps a parameter's name and shape to its view, which its other states share
    // (planfile::viewOf).
    std::map<std::pair<std::string_view, const std::vector<int64_t> &>, const planfile::ViewT *>
        views;
    std::set<std::string_view> withMaster;
    for (const auto &state : states) {
      if (state->role == StateRole::Parameter)
        views.try_emplace({state->name, state->global_shape}, state->view.get());
      if (state->role == StateRole::Master)
        withMaster.insert(state->name);
    }
    for (const auto &state : states) {
      const planfile::ViewT *view = state->view.get();
      if (auto found = views.find({state->name, state->global_shape}); !view && found != views.end())
        view = found->second;
      if (!state->owner || !view || view->source >= bySource_.size())
        continue;
      bool isWeight = state->role == StateRole::Master ||
                      (state->role == StateRole::Parameter && !withMaster.count(state->name));
      bySource_[view->source].push_back({stage, state.get(), view, isWeight});
    }
  }
}
