#include "lib/cost/Collectives.h"

#include <algorithm>
#include <cmath>

using namespace llmc;
using namespace llmc::cost;

double llmc::cost::wireBytes(Transfer kind, int64_t ranks, double bytes) {
  double part = double(ranks - 1) / double(ranks);
  switch (kind) {
  case Transfer::AllReduce:
    return 2 * part * bytes;
  case Transfer::Shift:
    return ranks > 1 ? bytes : 0;
  default:
    return part * bytes;
  }
}

namespace {

// Returns how many ranks of the group are within reach of each other over NVLink.
double ranksInDomain(const Cluster &cluster, const Group &group) {
  double within = std::floor(double(cluster.nvlinkDomain) / double(group.stride));
  return std::clamp(within, 1.0, double(group.size));
}

const CollectiveCurve &curveOf(const Cluster &cluster, Transfer kind) {
  switch (kind) {
  case Transfer::AllReduce:
    return cluster.allReduce;
  case Transfer::AllGather:
    return cluster.allGather;
  case Transfer::ReduceScatter:
    return cluster.reduceScatter;
  default:
    return cluster.allToAll;
  }
}

// Prices a collective inside one NVLink domain by the curve of the cluster.
double timeInside(const Cluster &cluster, Transfer kind, double ranks, double bytes) {
  bool inSwitch = kind == Transfer::AllReduce && cluster.switchReduce.efficiency > 0 && ranks >= 8;
  const CollectiveCurve &curve = inSwitch ? cluster.switchReduce : curveOf(cluster, kind);
  double shared = std::min(ranks, 8.0) / 8; // the curves are of up to eight ranks
  double rate = cluster.nvlink * curve.efficiency * std::pow(shared, curve.exponent);
  double ramp = curve.ramp * (1 - std::exp(-bytes / curve.rampLength));
  // Starts a tree beyond eight ranks, whose depth grows by their logarithm.
  double hops = ranks <= 8 ? ranks : 8 + 8 * std::log2(ranks / 8);
  return std::max(curve.start + curve.perRank * hops, cluster.linkLatency) + (wireBytes(kind, int64_t(ranks), bytes) + ramp) / rate;
}

// Prices rows or shares that ranks of several nodes exchange, each with all others: `outside` are the bytes that a rank sends
// through its own card to other nodes, `sent` those that it sends in all. Messages to all nodes are on their way at once.
double timeOfExchange(const Machine &machine, double inside, double outside, double sent) {
  const Cluster &c = machine.cluster;
  double wire = outside / (c.nic * machine.constants.nicCollective) + 2 * c.nicLatency;
  return std::max(wire, timeInside(c, Transfer::AllToAll, inside, sent));
}

} // namespace

double llmc::cost::timeOf(const Machine &machine, const Collective &collective) {
  if (collective.calls != 1 && collective.calls > 0) {
    Collective one = collective;
    one.bytes /= collective.calls, one.calls = 1;
    return collective.calls * timeOf(machine, one);
  }
  const Cluster &c = machine.cluster;
  double ranks = double(collective.group.size), bytes = collective.bytes;
  if (collective.group.size <= 1 || bytes <= 0)
    return 0;
  double inside = ranksInDomain(c, collective.group);
  if (inside >= ranks)
    return timeInside(c, collective.kind, ranks, bytes);
  double nodes = ranks / inside;
  if (collective.kind == Transfer::AllToAll)
    return timeOfExchange(machine, inside, bytes * (nodes - 1) / nodes, bytes);
  // Crosses nodes: rings use the cards of all members of a node, and NVLink between them.
  double cards = inside * c.nic * machine.constants.nicCollective;
  double rate = std::min(cards, c.nvlink * curveOf(c, collective.kind).efficiency);
  // Passes every node in a ring, a tree of nodes for a sum of all (NCCL), one hop for a shift.
  double steps = collective.kind == Transfer::Shift       ? 1
                 : collective.kind == Transfer::AllReduce ? 2 * (std::log2(nodes) + 1)
                                                          : nodes;
  return c.nicLatency * steps + wireBytes(collective.kind, collective.group.size, bytes) / rate;
}

double llmc::cost::exchangeTime(const Machine &machine, const Group &group, double bytes, double copies) {
  const Cluster &c = machine.cluster;
  double ranks = double(group.size), inside = ranksInDomain(c, group);
  if (ranks <= 1)
    return 0;
  if (machine.choices.dispatch == Dispatch::AllGather)
    return timeOf(machine, {Transfer::AllGather, Role::Expert, group, bytes / copies * ranks});
  // Sends a token to a rank, and to a node, once, whatever experts it has there: of `places` the copies reach so many.
  auto reached = [&](double places) { return places * (1 - std::pow(1 - 1 / places, copies)); };
  bool once = machine.choices.dispatch != Dispatch::AllToAll;
  double sent = once ? bytes * reached(ranks) / copies : bytes;
  if (inside >= ranks)
    return timeOf(machine, {Transfer::AllToAll, Role::Expert, group, sent});
  double nodes = ranks / inside, outside = bytes * (nodes - 1) / nodes;
  if (once)
    outside = std::min(outside, bytes / copies * reached(nodes) * (nodes - 1) / nodes);
  return timeOfExchange(machine, inside, outside, sent);
}

double llmc::cost::messageTime(const Machine &machine, int64_t stride, double bytes) {
  const Cluster &c = machine.cluster;
  if (stride < c.nvlinkDomain)
    return c.linkLatency + bytes / (c.nvlink * c.allToAll.efficiency);
  return c.nicLatency + bytes / (c.nic * 0.9); // of a single message (perftest, ib_write_bw)
}
