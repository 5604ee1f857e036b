#include "lib/calibrate/ThisMachine.h"

#include "runtime/compute/Cpu.h"
#include "runtime/compute/MachineSpeed.h"
#include "runtime/compute/Pinning.h"
#include "runtime/cpu/Arena.h"

using namespace llmc;

calibrate::ThisMachine calibrate::measureThisMachine() {
  ThisMachine machine;
  machine.cores = runtime::availableCores();
  if (auto chosen = runtime::chooseCpu(runtime::readCpuFeatures(), ""))
    machine.kernels = std::string(*chosen);
  machine.memoryBytes = double(runtime::availableMemory());
  runtime::MachineSpeed speed = runtime::measureMachineSpeed(machine.cores);
  machine.copyBytes = speed.copyBytesPerSecond;
  machine.flops = speed.matmulFlopsPerSecond;
  return machine;
}
