%-- Blocks with warpgroups that multiply and warps that load, for wgrad_wgmma and
%-- wgrad_tiles.
%
%function threads_of(config) return (config.groups * 4 + config.loaders) * 32 end
%-- Registers of a thread if all threads have the same number.
%function equal_registers(config)
%  return math.min(240, 65536 // (threads_of(config) * config.blocks) // 8 * 8)
%end
