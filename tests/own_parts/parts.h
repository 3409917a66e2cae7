#pragma once

// Parts that this program adds to those of DistBelief, each in a source of its own.
void register_own_mode();       // parallel.sync = "apart", [apart] replicas = 2
void register_own_task();       // train.task = "twice"
void register_own_data_set();   // data.name = "stripes"
void register_own_optimizer();  // train.optimizer = "signs"
