// RUN: llmc-opt %s -split-input-file -verify-diagnostics
// Every rule of ops of experts, by its number.

// route C1
func.func @f(%a0: tensor<3x8xf32>) {
  // expected-error@+1 {{C1: scores have shape [3, 8], expected a last dim that 3 groups share}}
  %r0 = graph.route %a0 {groups = 3} : (tensor<3x8xf32>) -> tensor<3x2xi64>
  return
}

// -----

// route C1
func.func @f(%a0: tensor<f32>) {
  // expected-error@+1 {{C1: scores have shape [], expected a last dim that 1 groups share}}
  %r0 = graph.route %a0 : (tensor<f32>) -> tensor<i64>
  return
}

// -----

// route C2
func.func @f(%a0: tensor<3x8xf32>) {
  // expected-error@+1 {{C2: routes have shape [3, 5], expected that of the scores [3, 8] with 1 to 4 as its last dim}}
  %r0 = graph.route %a0 {groups = 4, kept_groups = 2} : (tensor<3x8xf32>) -> tensor<3x5xi64>
  return
}

// -----

// route C2
func.func @f(%a0: tensor<3x8xf32>) {
  // expected-error@+1 {{C2: routes have shape [2, 2], expected that of the scores [3, 8] with 1 to 8 as its last dim}}
  %r0 = graph.route %a0 : (tensor<3x8xf32>) -> tensor<2x2xi64>
  return
}

// -----

// route C2
func.func @f(%a0: tensor<3x8xf32>) {
  // expected-error@+1 {{C2: routes have shape [3, 0], expected that of the scores [3, 8] with 1 to 8 as its last dim}}
  %r0 = graph.route %a0 : (tensor<3x8xf32>) -> tensor<3x0xi64>
  return
}

// -----

// route C3
func.func @f(%a0: tensor<3x8xf32>, %a1: tensor<7xf32>) {
  // expected-error@+1 {{C3: bias has shape [7], expected [8]}}
  %r0 = graph.route %a0, %a1 : (tensor<3x8xf32>, tensor<7xf32>) -> tensor<3x2xi64>
  return
}

// -----

// route C4
func.func @f(%a0: tensor<3x8xf32>) {
  // expected-error@+1 {{C4: keeps 3 of 2 groups by 1 scores, expected at least 1 of each and no more kept than there are}}
  %r0 = graph.route %a0 {groups = 2, kept_groups = 3} : (tensor<3x8xf32>) -> tensor<3x2xi64>
  return
}

// -----

// route C4
func.func @f(%a0: tensor<3x8xf32>) {
  // expected-error@+1 {{C4: keeps 1 of 2 groups by 0 scores, expected at least 1 of each and no more kept than there are}}
  %r0 = graph.route %a0 {groups = 2, group_terms = 0} : (tensor<3x8xf32>) -> tensor<3x2xi64>
  return
}

// -----

// route C4
func.func @f(%a0: tensor<3x8xf32>) {
  // expected-error@+1 {{C4: keeps 0 of 0 groups by 1 scores, expected at least 1 of each and no more kept than there are}}
  %r0 = graph.route %a0 {groups = 0, kept_groups = 0} : (tensor<3x8xf32>) -> tensor<3x2xi64>
  return
}

// -----

// route C5
func.func @f(%a0: tensor<3x8xf32>) {
  // expected-error@+1 {{C5: groups are chosen by 3 scores and have 2 experts}}
  %r0 = graph.route %a0 {groups = 4, group_terms = 3} : (tensor<3x8xf32>) -> tensor<3x2xi64>
  return
}

// -----

// limit_routes C1
func.func @f(%a0: tensor<6xi64>) {
  // expected-error@+1 {{C1: routes have shape [6], expected tokens and choices as their last dims}}
  %r0 = graph.limit_routes %a0 {capacity = 2, experts = 4} : (tensor<6xi64>) -> tensor<6xi64>
  return
}

// -----

// limit_routes C2
func.func @f(%a0: tensor<3x2xi64>) {
  // expected-error@+1 {{C2: the capacity is 0 of 4 experts, expected at least 1 of each}}
  %r0 = graph.limit_routes %a0 {capacity = 0, experts = 4} : (tensor<3x2xi64>) -> tensor<3x2xi64>
  return
}

// -----

// limit_routes C2
func.func @f(%a0: tensor<3x2xi64>) {
  // expected-error@+1 {{C2: the capacity is 1 of -1 experts, expected at least 1 of each}}
  %r0 = graph.limit_routes %a0 {capacity = 1, experts = -1} : (tensor<3x2xi64>) -> tensor<3x2xi64>
  return
}

// -----

// limit_routes C3
func.func @f(%a0: tensor<3x2xi64>) {
  // expected-error@+1 {{C3: result type is 'tensor<3x3xi64>', expected 'tensor<3x2xi64>', the operand's}}
  %r0 = graph.limit_routes %a0 {capacity = 2, experts = 4} : (tensor<3x2xi64>) -> tensor<3x3xi64>
  return
}

// -----

// grouped_matmul C1
func.func @f(%a0: tensor<2x4xf32>, %a1: tensor<4x3xf32>, %a2: tensor<2x2xi64>) {
  // expected-error@+1 {{C1: weights have shape [4, 3], expected experts and a matrix}}
  %r0 = graph.grouped_matmul %a0, %a1, %a2 : (tensor<2x4xf32>, tensor<4x3xf32>, tensor<2x2xi64>) -> tensor<2x2x3xf32>
  return
}

// -----

// grouped_matmul C2
func.func @f(%a0: tensor<3x4xf32>, %a1: tensor<5x4x3xf32>, %a2: tensor<2x2xi64>) {
  // expected-error@+1 {{C2: operand has shape [3, 4], expected [2, 2], or that without its last dim, and one more dim}}
  %r0 = graph.grouped_matmul %a0, %a1, %a2 : (tensor<3x4xf32>, tensor<5x4x3xf32>, tensor<2x2xi64>) -> tensor<2x2x3xf32>
  return
}

// -----

// grouped_matmul C2
func.func @f(%a0: tensor<4xf32>, %a1: tensor<5x4x3xf32>, %a2: tensor<i64>) {
  // expected-error@+1 {{C2: operand has shape [4], expected [], or that without its last dim, and one more dim}}
  %r0 = graph.grouped_matmul %a0, %a1, %a2 : (tensor<4xf32>, tensor<5x4x3xf32>, tensor<i64>) -> tensor<3xf32>
  return
}

// -----

// grouped_matmul C2
func.func @f(%a0: tensor<2x4xf32>, %a1: tensor<5x4x3xf32>, %a2: tensor<2x2xi64>) {
  // expected-error@+1 {{C2: operand rows have 4 elements, expected 3}}
  %r0 = graph.grouped_matmul %a0, %a1, %a2 {transposed} : (tensor<2x4xf32>, tensor<5x4x3xf32>, tensor<2x2xi64>) -> tensor<2x2x3xf32>
  return
}

// -----

// grouped_matmul C3
func.func @f(%a0: tensor<2x4xf32>, %a1: tensor<5x4x3xf32>, %a2: tensor<2x2xi64>) {
  // expected-error@+1 {{C3: result has shape [2, 2, 4], expected [2, 2, 3]}}
  %r0 = graph.grouped_matmul %a0, %a1, %a2 : (tensor<2x4xf32>, tensor<5x4x3xf32>, tensor<2x2xi64>) -> tensor<2x2x4xf32>
  return
}

// -----

// grouped_matmul C4
func.func @f(%a0: tensor<2x4xf32>, %a1: tensor<5x4x3xbf16>, %a2: tensor<2x2xi64>) {
  // expected-error@+1 {{C4: operand and weights have element types 'f32' and 'bf16', expected one}}
  %r0 = graph.grouped_matmul %a0, %a1, %a2 : (tensor<2x4xf32>, tensor<5x4x3xbf16>, tensor<2x2xi64>) -> tensor<2x2x3xf32>
  return
}

// -----

// grouped_outer C1
func.func @f(%a0: tensor<2x4xf32>, %a1: tensor<2x2x3xf32>, %a2: tensor<2x2xi64>) {
  // expected-error@+1 {{C1: the result has shape [4, 3], expected experts and a matrix}}
  %r0 = graph.grouped_outer %a0, %a1, %a2 : (tensor<2x4xf32>, tensor<2x2x3xf32>, tensor<2x2xi64>) -> tensor<4x3xf32>
  return
}

// -----

// grouped_outer C2
func.func @f(%a0: tensor<3x4xf32>, %a1: tensor<2x2x3xf32>, %a2: tensor<2x2xi64>) {
  // expected-error@+1 {{C2: lhs has shape [3, 4], expected [2, 2], or that without its last dim, and one more dim}}
  %r0 = graph.grouped_outer %a0, %a1, %a2 : (tensor<3x4xf32>, tensor<2x2x3xf32>, tensor<2x2xi64>) -> tensor<5x4x3xf32>
  return
}

// -----

// grouped_outer C2
func.func @f(%a0: tensor<2x4xf32>, %a1: tensor<2x3xf32>, %a2: tensor<2x2xi64>) {
  // expected-error@+1 {{C2: lhs has shape [2, 4], expected [2, 2] and one more dim}}
  %r0 = graph.grouped_outer %a0, %a1, %a2 : (tensor<2x4xf32>, tensor<2x3xf32>, tensor<2x2xi64>) -> tensor<5x4x3xf32>
  return
}

// -----

// grouped_outer C2
func.func @f(%a0: tensor<2x4xf32>, %a1: tensor<2x2x3xf32>, %a2: tensor<2x2xi64>) {
  // expected-error@+1 {{C2: rows of rhs have 3 elements, expected 6}}
  %r0 = graph.grouped_outer %a0, %a1, %a2 : (tensor<2x4xf32>, tensor<2x2x3xf32>, tensor<2x2xi64>) -> tensor<5x4x6xf32>
  return
}

// -----

// grouped_outer C3
func.func @f(%a0: tensor<2x4xf32>, %a1: tensor<2x2x3xbf16>, %a2: tensor<2x2xi64>) {
  // expected-error@+1 {{C3: operands have element types 'f32' and 'bf16', expected one}}
  %r0 = graph.grouped_outer %a0, %a1, %a2 : (tensor<2x4xf32>, tensor<2x2x3xbf16>, tensor<2x2xi64>) -> tensor<5x4x3xf32>
  return
}

// -----

// exchange_routes C1
func.func @f(%a0: tensor<6xi64>) {
  // expected-error@+1 {{C1: routes have shape [6], expected tokens and choices as their last dims}}
  %r0, %r1, %r2 = graph.exchange_routes %a0 {experts = 8} : (tensor<6xi64>) -> (tensor<8xi64>, tensor<8xi64>, tensor<f32>)
  return
}

// -----

// exchange_routes C2
func.func @f(%a0: tensor<3x2xi64>) {
  // expected-error@+1 {{C2: arrived has shape [3, 1], expected that of the routes, [3, 2], with at least as many slots}}
  %r0, %r1, %r2 = graph.exchange_routes %a0 {experts = 8} : (tensor<3x2xi64>) -> (tensor<3x1xi64>, tensor<3x1xi64>, tensor<f32>)
  return
}

// -----

// exchange_routes C2
func.func @f(%a0: tensor<3x2xi64>) {
  // expected-error@+1 {{C2: sources has shape [3, 3], expected [3, 4]}}
  %r0, %r1, %r2 = graph.exchange_routes %a0 {experts = 8} : (tensor<3x2xi64>) -> (tensor<3x4xi64>, tensor<3x3xi64>, tensor<f32>)
  return
}

// -----

// exchange_routes C3
func.func @f(%a0: tensor<3x2xi64>) {
  // expected-error@+1 {{C3: lost has shape [1], expected [3]}}
  %r0, %r1, %r2 = graph.exchange_routes %a0 {experts = 8} : (tensor<3x2xi64>) -> (tensor<3x4xi64>, tensor<3x4xi64>, tensor<1xf32>)
  return
}

// -----

// dispatch C1
func.func @f(%a0: tensor<3x4xf32>, %a1: tensor<3x2xi64>, %a2: tensor<3x1xi64>) {
  // expected-error@+1 {{C1: sources has shape [3, 1], expected that of the routes, [3, 2], with at least as many slots}}
  %r0 = graph.dispatch %a0, %a1, %a2 {experts = 8} : (tensor<3x4xf32>, tensor<3x2xi64>, tensor<3x1xi64>) -> tensor<3x1x4xf32>
  return
}

// -----

// dispatch C2
func.func @f(%a0: tensor<2x4xf32>, %a1: tensor<3x2xi64>, %a2: tensor<3x3xi64>) {
  // expected-error@+1 {{C2: the operand has shape [2, 4], expected [3, 2], or that without its last dim, and one more dim}}
  %r0 = graph.dispatch %a0, %a1, %a2 {experts = 8} : (tensor<2x4xf32>, tensor<3x2xi64>, tensor<3x3xi64>) -> tensor<3x3x4xf32>
  return
}

// -----

// dispatch C3
func.func @f(%a0: tensor<3x4xf32>, %a1: tensor<3x2xi64>, %a2: tensor<3x3xi64>) {
  // expected-error@+1 {{C3: result has shape [3, 2, 4], expected [3, 3, 4]}}
  %r0 = graph.dispatch %a0, %a1, %a2 {experts = 8} : (tensor<3x4xf32>, tensor<3x2xi64>, tensor<3x3xi64>) -> tensor<3x2x4xf32>
  return
}

// -----

// dispatch C3
func.func @f(%a0: tensor<3x4xf32>, %a1: tensor<3x2xi64>, %a2: tensor<3x3xi64>) {
  // expected-error@+1 {{C3: result has element type 'bf16', expected 'f32'}}
  %r0 = graph.dispatch %a0, %a1, %a2 {experts = 8} : (tensor<3x4xf32>, tensor<3x2xi64>, tensor<3x3xi64>) -> tensor<3x3x4xbf16>
  return
}

// -----

// collect C1
func.func @f(%a0: tensor<3x3x4xf32>, %a1: tensor<3x2xi64>, %a2: tensor<2x3xi64>) {
  // expected-error@+1 {{C1: sources has shape [2, 3], expected that of the routes, [3, 2], with at least as many slots}}
  %r0 = graph.collect %a0, %a1, %a2 {experts = 8} : (tensor<3x3x4xf32>, tensor<3x2xi64>, tensor<2x3xi64>) -> tensor<3x2x4xf32>
  return
}

// -----

// collect C2
func.func @f(%a0: tensor<3x2x4xf32>, %a1: tensor<3x2xi64>, %a2: tensor<3x3xi64>) {
  // expected-error@+1 {{C2: operand has shape [3, 2, 4], expected [3, 3, 4]}}
  %r0 = graph.collect %a0, %a1, %a2 {experts = 8} : (tensor<3x2x4xf32>, tensor<3x2xi64>, tensor<3x3xi64>) -> tensor<3x2x4xf32>
  return
}

// -----

// collect C2
func.func @f(%a0: tensor<f32>, %a1: tensor<3x2xi64>, %a2: tensor<3x3xi64>) {
  // expected-error@+1 {{C2: operand has shape [], expected [3, 3, 0]}}
  %r0 = graph.collect %a0, %a1, %a2 {experts = 8} : (tensor<f32>, tensor<3x2xi64>, tensor<3x3xi64>) -> tensor<3x2x4xf32>
  return
}

// -----

// collect C3
func.func @f(%a0: tensor<3x3x4xf32>, %a1: tensor<3x2xi64>, %a2: tensor<3x3xi64>) {
  // expected-error@+1 {{C3: result has shape [3, 3, 4], expected [3, 2, 4]}}
  %r0 = graph.collect %a0, %a1, %a2 {experts = 8} : (tensor<3x3x4xf32>, tensor<3x2xi64>, tensor<3x3xi64>) -> tensor<3x3x4xf32>
  return
}

// -----

// collect C3
func.func @f(%a0: tensor<3x3x4xf32>, %a1: tensor<3x2xi64>, %a2: tensor<3x3xi64>) {
  // expected-error@+1 {{C3: result has element type 'bf16', expected 'f32'}}
  %r0 = graph.collect %a0, %a1, %a2 {experts = 8} : (tensor<3x3x4xf32>, tensor<3x2xi64>, tensor<3x3xi64>) -> tensor<3x2x4xbf16>
  return
}

// -----

// sort_routes C1
func.func @f(%a0: tensor<3x2xi64>) {
  // expected-error@+1 {{C1: places and sorted are 'tensor<3x2xi64>' and 'tensor<6xi64>', expected 'tensor<3x2xi64>'}}
  %r0, %r1, %r2 = graph.sort_routes %a0 {experts = 8} : (tensor<3x2xi64>) -> (tensor<3x2xi64>, tensor<6xi64>, tensor<4xi64>)
  return
}

// -----

// sort_routes C2
func.func @f(%a0: tensor<3x2xi64>) {
  // expected-error@+1 {{C2: counts have shape [3], expected one dim that divides 8 experts}}
  %r0, %r1, %r2 = graph.sort_routes %a0 {experts = 8} : (tensor<3x2xi64>) -> (tensor<3x2xi64>, tensor<3x2xi64>, tensor<3xi64>)
  return
}

// -----

// sort_routes C2
func.func @f(%a0: tensor<3x2xi64>) {
  // expected-error@+1 {{C2: counts have shape [0], expected one dim that divides 8 experts}}
  %r0, %r1, %r2 = graph.sort_routes %a0 {experts = 8} : (tensor<3x2xi64>) -> (tensor<3x2xi64>, tensor<3x2xi64>, tensor<0xi64>)
  return
}

// -----

// arrived_routes C1
func.func @f(%a0: tensor<3x2xi64>, %a1: tensor<4xi64>) {
  // expected-error@+1 {{C1: arrived and sources are 'tensor<6xi64>' and 'tensor<3x2xi64>', expected 'tensor<3x2xi64>'}}
  %r0, %r1, %r2 = graph.arrived_routes %a0, %a1 : (tensor<3x2xi64>, tensor<4xi64>) -> (tensor<6xi64>, tensor<3x2xi64>, tensor<f32>)
  return
}

// -----

// arrived_routes C2
func.func @f(%a0: tensor<3x2xi64>, %a1: tensor<2x2xi64>) {
  // expected-error@+1 {{C2: counts have shape [2, 2], expected one dim}}
  %r0, %r1, %r2 = graph.arrived_routes %a0, %a1 : (tensor<3x2xi64>, tensor<2x2xi64>) -> (tensor<3x2xi64>, tensor<3x2xi64>, tensor<f32>)
  return
}

// -----

// arrived_routes C3
func.func @f(%a0: tensor<3x2xi64>, %a1: tensor<4xi64>) {
  // expected-error@+1 {{C3: lost has shape [1], expected [3]}}
  %r0, %r1, %r2 = graph.arrived_routes %a0, %a1 : (tensor<3x2xi64>, tensor<4xi64>) -> (tensor<3x2xi64>, tensor<3x2xi64>, tensor<1xf32>)
  return
}

// -----

// count_sources C1
func.func @f(%a0: tensor<3x2xi64>) {
  // expected-error@+1 {{C1: the result has shape [], expected one dim}}
  %r0 = graph.count_sources %a0 : (tensor<3x2xi64>) -> tensor<i64>
  return
}

// -----

// pack_rows C1
func.func @f(%a0: tensor<2x4xf32>, %a1: tensor<3x2xi64>) {
  // expected-error@+1 {{C1: the operand has shape [2, 4], expected [3, 2], or that without its last dim, and one more dim}}
  %r0 = graph.pack_rows %a0, %a1 : (tensor<2x4xf32>, tensor<3x2xi64>) -> tensor<3x2x4xf32>
  return
}

// -----

// pack_rows C2
func.func @f(%a0: tensor<3x4xf32>, %a1: tensor<3x2xi64>) {
  // expected-error@+1 {{C2: result has shape [3, 4], expected [3, 2, 4]}}
  %r0 = graph.pack_rows %a0, %a1 : (tensor<3x4xf32>, tensor<3x2xi64>) -> tensor<3x4xf32>
  return
}

// -----

// pack_rows C2
func.func @f(%a0: tensor<3x4xf32>, %a1: tensor<3x2xi64>) {
  // expected-error@+1 {{C2: result has element type 'bf16', expected 'f32'}}
  %r0 = graph.pack_rows %a0, %a1 : (tensor<3x4xf32>, tensor<3x2xi64>) -> tensor<3x2x4xbf16>
  return
}

// -----

// unpack_rows C1
func.func @f(%a0: tensor<2x4xf32>, %a1: tensor<3x2xi64>) {
  // expected-error@+1 {{C1: the operand has shape [2, 4], expected [3, 2], or that without its last dim, and one more dim}}
  %r0 = graph.unpack_rows %a0, %a1 : (tensor<2x4xf32>, tensor<3x2xi64>) -> tensor<2x4xf32>
  return
}

// -----

// unpack_rows C1
func.func @f(%a0: tensor<3x4xf32>, %a1: tensor<3x2xi64>) {
  // expected-error@+1 {{C1: the operand has shape [3, 4], expected the dim of choices too}}
  %r0 = graph.unpack_rows %a0, %a1 : (tensor<3x4xf32>, tensor<3x2xi64>) -> tensor<3x4xf32>
  return
}

// -----

// unpack_rows C2
func.func @f(%a0: tensor<3x2x4xf32>, %a1: tensor<3x2xi64>) {
  // expected-error@+1 {{C2: result type is 'tensor<3x2x5xf32>', expected 'tensor<3x2x4xf32>', the operand's}}
  %r0 = graph.unpack_rows %a0, %a1 : (tensor<3x2x4xf32>, tensor<3x2xi64>) -> tensor<3x2x5xf32>
  return
}

// -----

// exchange_routes C4
func.func @f(%a0: tensor<3x2xi64>) {
  // expected-error@+1 {{C4: there are 0 experts, expected at least 1}}
  %r0, %r1, %r2 = graph.exchange_routes %a0 {experts = 0} : (tensor<3x2xi64>) -> (tensor<3x4xi64>, tensor<3x4xi64>, tensor<f32>)
  return
}

// -----

// dispatch C4
func.func @f(%a0: tensor<3x4xf32>, %a1: tensor<3x2xi64>, %a2: tensor<3x3xi64>) {
  // expected-error@+1 {{C4: there are 0 experts, expected at least 1}}
  %r0 = graph.dispatch %a0, %a1, %a2 {experts = 0} : (tensor<3x4xf32>, tensor<3x2xi64>, tensor<3x3xi64>) -> tensor<3x3x4xf32>
  return
}

// -----

// collect C4
func.func @f(%a0: tensor<3x3x4xf32>, %a1: tensor<3x2xi64>, %a2: tensor<3x3xi64>) {
  // expected-error@+1 {{C4: there are 0 experts, expected at least 1}}
  %r0 = graph.collect %a0, %a1, %a2 {experts = 0} : (tensor<3x3x4xf32>, tensor<3x2xi64>, tensor<3x3xi64>) -> tensor<3x2x4xf32>
  return
}
